"""Where things are; importing this lets the recogniser use the zoo's shared modules."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ZOO = os.path.dirname(HERE)
ROOT = os.path.dirname(os.path.dirname(ZOO))
WORK = os.path.join(ZOO, "work", "asr")
PACKAGE = os.path.join(ROOT, "pipelines", "models", "asr")

# Behind this folder, whose train.py and evaluate.py come first.
sys.path.append(ZOO)
