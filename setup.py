"""Builds and installs tf1accum, on Python 2.7 and 3.6 and later."""
import io
import os
import re

from setuptools import find_packages, setup

HERE = os.path.dirname(os.path.abspath(__file__))


def read(*parts):
    with io.open(os.path.join(HERE, *parts), encoding="utf-8") as source:
        return source.read()


def version():
    # Read as text: importing the package would import TensorFlow.
    text = read("tf1accum", "__init__.py")
    return re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE).group(1)


# TensorFlow comes as several distributions that hold the same module, and a requirement of one
# would install it over another. So it is an extra, under the name of the variant.
PROTOBUF = "protobuf<3.21; python_version < '3.8'"  # TensorFlow 1.15 does not ask for it, and needs it
EXTRAS = {
    "tf": ["tensorflow>=1.15", PROTOBUF],
    "cpu": ["tensorflow-cpu>=1.15", PROTOBUF],
    "gpu": [
        # `tensorflow-gpu` ended with 2.11; since 2.14 the CUDA libraries are an extra of `tensorflow`.
        "tensorflow-gpu>=1.15,<2.12; python_version < '3.9'",
        "tensorflow[and-cuda]>=2.14; python_version >= '3.9'",
        PROTOBUF,
    ],
    "demo": ["scikit-learn", "matplotlib", "rich"],
    "test": ["pytest>=4.6", "pytest-timeout", "pytest-xdist", "hypothesis", "setuptools", "wheel"],
    "check": ["ruff==0.17.*"],  # other versions find and format other things
}

setup(
    name="tf1accum",
    version=version(),
    description="Gradient accumulation for TensorFlow 1 sessions (tf.compat.v1), right to the last digit",
    long_description=read("README.md"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    author="The tf1accum authors",
    packages=find_packages(include=["tf1accum", "tf1accum.*"]),
    python_requires=">=2.7, !=3.0.*, !=3.1.*, !=3.2.*, !=3.3.*, !=3.4.*, !=3.5.*",
    install_requires=["numpy", "six"],
    extras_require=EXTRAS,
    zip_safe=False,
    # One wheel serves Python 2 and 3.
    options={"bdist_wheel": {"python_tag": "py2.py3"}},
    keywords="tensorflow gradient-accumulation large-batch micro-batch optimizer session graph-mode",
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: OS Independent",
        "Programming Language :: Python :: 2",
        "Programming Language :: Python :: 2.7",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.6",
        "Programming Language :: Python :: 3.7",
        "Programming Language :: Python :: 3.8",
        "Programming Language :: Python :: 3.9",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Software Development :: Libraries :: Python Modules",
    ],
)
