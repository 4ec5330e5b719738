"""Paths of the vision models. Importing this module makes the modules of tools/zoo importable."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ZOO = os.path.dirname(HERE)
ROOT = os.path.dirname(os.path.dirname(ZOO))
WORK = os.path.join(ZOO, "work", "vision")
MODELS = os.path.join(ROOT, "pipelines", "models")
ASSETS = os.path.join(ROOT, "pipelines", "assets")

# Appended, so that the modules of this folder take precedence.
sys.path.append(ZOO)
