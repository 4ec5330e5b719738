"""The position of an image that is fitted to another size, for the scripts of this folder."""


def letterbox(image, size):
    """Left, top, width and height, as by `LetterBox` of Ultralytics (ultralytics/data/augment.py, center=True)."""
    ratio = min(size[1] / image[1], size[0] / image[0])
    new = [max(1, round(image[0] * ratio)), max(1, round(image[1] * ratio))]
    border = [(size[0] - new[0]) / 2, (size[1] - new[1]) / 2]
    return [round(border[0] - 0.1), round(border[1] - 0.1), *new]
