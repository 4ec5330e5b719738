"""Where things are; importing this lets the turn detector use the zoo's shared modules, and the recogniser's grammar."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ZOO = os.path.dirname(HERE)
ROOT = os.path.dirname(os.path.dirname(ZOO))
WORK = os.path.join(ZOO, "work", "turn")
PACKAGE = os.path.join(ROOT, "pipelines", "models", "turn")

# Behind this folder, whose train.py and evaluate.py come first.
sys.path.append(ZOO)
GRAMMAR = os.path.join(ZOO, "asr")
