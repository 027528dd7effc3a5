"""CTranslate2 as an engine: conversion of a Transformer's parameters to its format, and its search."""
