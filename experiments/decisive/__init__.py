"""The decisive experiment: is noise that follows Shapley values worth anything?"""
