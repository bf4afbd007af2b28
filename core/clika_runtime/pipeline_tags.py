"""Pipeline tags: the tasks that a model family may declare, as the Hugging Face Hub spells them.

A declaration with a tag outside this vocabulary is refused, so that a typing error is no new task.

>>> TEXT_GENERATION in TAGS
True
"""

from __future__ import annotations

__all__ = ["TAGS"]

ANY_TO_ANY = "any-to-any"
AUDIO_CLASSIFICATION = "audio-classification"
AUDIO_TEXT_TO_TEXT = "audio-text-to-text"
AUDIO_TO_AUDIO = "audio-to-audio"
AUTOMATIC_SPEECH_RECOGNITION = "automatic-speech-recognition"
DEPTH_ESTIMATION = "depth-estimation"
DOCUMENT_QUESTION_ANSWERING = "document-question-answering"
FEATURE_EXTRACTION = "feature-extraction"
FILL_MASK = "fill-mask"
GRAPH_ML = "graph-ml"
IMAGE_CLASSIFICATION = "image-classification"
IMAGE_FEATURE_EXTRACTION = "image-feature-extraction"
IMAGE_SEGMENTATION = "image-segmentation"
IMAGE_TEXT_TO_TEXT = "image-text-to-text"
IMAGE_TO_3D = "image-to-3d"
IMAGE_TO_IMAGE = "image-to-image"
IMAGE_TO_TEXT = "image-to-text"
IMAGE_TO_VIDEO = "image-to-video"
KEYPOINT_DETECTION = "keypoint-detection"
MASK_GENERATION = "mask-generation"
MULTIPLE_CHOICE = "multiple-choice"
OBJECT_DETECTION = "object-detection"
QUESTION_ANSWERING = "question-answering"
REINFORCEMENT_LEARNING = "reinforcement-learning"
ROBOTICS = "robotics"
SENTENCE_SIMILARITY = "sentence-similarity"
SUMMARIZATION = "summarization"
TABLE_QUESTION_ANSWERING = "table-question-answering"
TABLE_TO_TEXT = "table-to-text"
TABULAR_CLASSIFICATION = "tabular-classification"
TABULAR_REGRESSION = "tabular-regression"
TEXT2TEXT_GENERATION = "text2text-generation"
TEXT_CLASSIFICATION = "text-classification"
TEXT_GENERATION = "text-generation"
TEXT_RANKING = "text-ranking"
TEXT_TO_3D = "text-to-3d"
TEXT_TO_AUDIO = "text-to-audio"
TEXT_TO_IMAGE = "text-to-image"
TEXT_TO_SPEECH = "text-to-speech"
TEXT_TO_VIDEO = "text-to-video"
TIME_SERIES_FORECASTING = "time-series-forecasting"
TOKEN_CLASSIFICATION = "token-classification"
TRANSLATION = "translation"
UNCONDITIONAL_IMAGE_GENERATION = "unconditional-image-generation"
VIDEO_CLASSIFICATION = "video-classification"
VIDEO_TEXT_TO_TEXT = "video-text-to-text"
VIDEO_TO_VIDEO = "video-to-video"
VISUAL_DOCUMENT_RETRIEVAL = "visual-document-retrieval"
VISUAL_QUESTION_ANSWERING = "visual-question-answering"
VOICE_ACTIVITY_DETECTION = "voice-activity-detection"
ZERO_SHOT_CLASSIFICATION = "zero-shot-classification"
ZERO_SHOT_IMAGE_CLASSIFICATION = "zero-shot-image-classification"
ZERO_SHOT_OBJECT_DETECTION = "zero-shot-object-detection"

#: Every tag.
TAGS = frozenset(value for name, value in list(globals().items()) if name.isupper())
