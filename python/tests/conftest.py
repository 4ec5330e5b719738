"""Paths of the tests."""

import pathlib

import numpy as np
import pytest


@pytest.fixture
def data():
    return pathlib.Path(__file__).parent / "data"


@pytest.fixture
def expected(data):
    """Outputs of PyTorch; see data/export.py."""
    return np.load(data / "expected.npz")


@pytest.fixture
def repository():
    return pathlib.Path(__file__).parents[2]
