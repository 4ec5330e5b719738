"""A node in Python: the mean brightness of images. `brightness_graph.py` runs it."""

import afferent


class Brightness(afferent.Node):
    """Tells when images become brighter or darker."""

    image = afferent.In("vision/Image", "Images with 8 bits for each channel.")
    out = afferent.Out("text/Text", "A sentence for each change.")
    change = afferent.Param(0.01, "Least change to tell, as a share of white.", range=(0, 1))

    def open(self):
        self.told = None

    def process(self, cx):
        brightness = float(cx.image.data.mean()) / 255.0
        if self.told is None or abs(brightness - self.told) >= self.change:
            self.told = brightness
            cx.send(self.out, f"{brightness:.0%} bright")
