"""Experiment B: what does hiding one attribute's records buy over features first?"""
