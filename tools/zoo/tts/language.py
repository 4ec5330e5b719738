"""The language of the voice: the module english or spanish, by the environment variable
VOICE_LANGUAGE, which the option --language of make.py sets.
"""
import importlib
import os

VARIABLE = "VOICE_LANGUAGE"
MODULES = {"en": "english", "es": "spanish"}
CODE = os.environ.get(VARIABLE, "en")
language = importlib.import_module(MODULES[CODE])
