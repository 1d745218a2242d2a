# scripts/package runs this in a copy of the folder, in which the package has the program and the plugin.
import os
import platform

from setuptools import setup

setup(
    name="decart-standin",
    version=os.environ["DECART_VERSION"],
    description="A stand-in for Decart's realtime video service, with a pytest fixture",
    license="Apache-2.0",
    python_requires=">=3.9",
    packages=["decart_standin"],
    package_data={"decart_standin": ["bin/*", "gstreamer-1.0/*"]},
    entry_points={
        "console_scripts": ["decart-standin = decart_standin:main"],
        "pytest11": ["decart_standin = decart_standin.plugin"],
    },
    # The libraries are the distribution's, so the wheel has no manylinux tag.
    options={"bdist_wheel": {"plat_name": f"linux_{platform.machine()}", "python_tag": "py3"}},
)
