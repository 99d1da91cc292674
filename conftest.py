"""Puts the checkout on the path, so that the tests run without an installation."""
from __future__ import absolute_import, division, print_function

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
