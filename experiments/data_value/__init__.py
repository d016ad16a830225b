"""Experiment A: is protection guided by the value of data worth anything?"""
