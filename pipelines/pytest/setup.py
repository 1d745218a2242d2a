# scripts/package runs this in a copy of the folder, in which the package has the program, the plugin and the licences.
import ast
import os
import platform

from setuptools import setup

with open("decart_standin/__init__.py", encoding="utf-8") as file:
    documentation = ast.get_docstring(ast.parse(file.read()))

setup(
    name="decart-standin",
    version=os.environ["DECART_VERSION"],
    description="A stand-in for Decart's realtime video service, with a pytest fixture",
    long_description=documentation,
    long_description_content_type="text/plain",
    author="The gst-decart authors",
    author_email="maintainers@gst-decart.invalid",
    license="Apache-2.0",
    license_files=["LICENSE", "copyright"],
    classifiers=[
        "Framework :: Pytest",
        "License :: OSI Approved :: Apache Software License",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        "Topic :: Multimedia :: Video",
        "Topic :: Software Development :: Testing :: Mocking",
    ],
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
