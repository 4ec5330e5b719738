"""Paths of the recognizer. Importing this module makes the modules of tools/zoo importable."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ZOO = os.path.dirname(HERE)
ROOT = os.path.dirname(os.path.dirname(ZOO))
WORK = os.path.join(ZOO, "work", "asr")
PACKAGE = os.path.join(ROOT, "pipelines", "models", "asr")

# Appended, so that train.py and evaluate.py of this folder take precedence.
sys.path.append(ZOO)
