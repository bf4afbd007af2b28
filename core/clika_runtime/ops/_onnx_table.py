"""How ONNX's operators (domain ``ai.onnx``) are expressed in ours: the one declaration of it.

``TABLE`` maps an operator of ONNX to a row: the operators of ours that it is made of, in the order
of the computation, and what has to be said beside that. ``GRAPH`` operators steer a graph
(branches, loops, sequences, optionals, constants): they become instructions and Python values of
the graph's executor, around operators that stand in their bodies. ``HOST`` operators work on
strings or on bytes of files, for which no tensor exists here: they are steps on the host.

ONNX counts channels in dim 1, ours last: spatial operators stand between two `permute`, which are
not listed. Attributes that ONNX has as inputs (axes, shapes, pads) are read from constants.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["GRAPH", "HOST", "OPSET", "TABLE", "Row"]

#: The opset whose operators are all in the table; deprecated ones of earlier opsets are too.
OPSET = 28

OPERATORS = "operators"
GRAPH = "graph"
HOST = "host"


class Row(NamedTuple):
    """One operator of ONNX: ours that it is made of, a remark, and who runs it."""

    operators: tuple[str, ...]
    remark: str = ""
    kind: str = OPERATORS


def _rows(text: str) -> dict[str, Row]:
    """Lines ``Name = operators ; remark``; a name alone stands for the operator in lower case."""
    found = {}
    for line in text.strip().splitlines():
        body, _, remark = line.strip().partition(";")
        name, _, operators = body.partition("=")
        name = name.strip()
        found[name] = Row(tuple(operators.split()) or (name.lower(),), remark.strip())
    return found


TABLE: dict[str, Row] = {
    # -------------------------------------------------------- element by element
    **_rows(
        """
        Abs
        Acos
        Acosh
        Add
        And = logical_and
        Asin
        Asinh
        Atan
        Atanh
        BitCast = bitcast
        BitShift = bitwise_left_shift bitwise_right_shift ; by direction
        BitwiseAnd = bitwise_and
        BitwiseNot = bitwise_not
        BitwiseOr = bitwise_or
        BitwiseXor = bitwise_xor
        Cast = cast
        CastLike = cast ; to the dtype of target_type
        Ceil
        Celu
        Clip = clamp
        Cos
        Cosh
        Div = div floor_divide ; integers: rounding_mode "trunc"
        Elu
        Equal = eq
        Erf
        Exp
        Floor
        Gelu
        Greater = gt
        GreaterOrEqual = ge
        HardSigmoid = mul add clamp ; clamp(alpha x + beta, 0, 1)
        HardSwish = hardswish
        Identity = copy
        IsInf = isinf isposinf isneginf ; by detect_positive and detect_negative
        IsNaN = isnan
        LeakyRelu = leaky_relu
        Less = lt
        LessOrEqual = le
        Log
        Max = maximum ; one after the other
        Mean = add div ; of the inputs, element by element
        Min = minimum ; one after the other
        Mish
        Mod = remainder fmod ; by fmod
        Mul
        Neg
        Not = logical_not
        Or = logical_or
        PRelu = where mul ; the slope broadcasts as numbers do
        Pow
        Reciprocal
        Relu
        Round
        Selu = elu mul ; gamma * elu(x, alpha)
        Shrink = where add sub ; lambd and bias
        Sigmoid
        Sign
        Sin
        Sinh
        Softplus
        Softsign
        Sqrt
        Sub
        Sum = add ; one after the other
        SwiGLU = swiglu sigmoid mul ; an alpha other than 1: a * sigmoid(alpha a) * b
        Swish = silu sigmoid mul ; an alpha other than 1: x * sigmoid(alpha x)
        Tan
        Tanh
        ThresholdedRelu = threshold ; threshold(x, alpha, 0)
        Where
        Xor = logical_xor
        """
    ),
    # -------------------------------------------------------- reductions, orders
    **_rows(
        """
        ArgMax = argmax flip ; select_last_index: of the reversed dim
        ArgMin = argmin flip ; select_last_index: of the reversed dim
        CumProd = cumprod flip narrow cat ; reverse and exclusive
        CumSum = cumsum flip narrow cat ; reverse and exclusive
        Hardmax = argmax one_hot cast movedim
        LogSoftmax = log_softmax
        LpNormalization = normalize
        MeanVarianceNormalization = mean sub var add sqrt div ; var without correction
        ReduceL1 = vector_norm ; ord 1
        ReduceL2 = vector_norm ; ord 2
        ReduceLogSum = sum log
        ReduceLogSumExp = logsumexp
        ReduceMax = amax any ; bools: any
        ReduceMean = mean
        ReduceMin = amin all ; bools: all
        ReduceProd = prod
        ReduceSum = sum
        ReduceSumSquare = square sum
        Softmax
        TopK = topk
        Unique = unique gather ; the order of first places: by sorting the first indices
        """
    ),
    # -------------------------------------------------------- shapes and places
    **_rows(
        """
        CenterCropPad = slice pad
        Compress = nonzero index_select
        Concat = cat
        ConstantOfShape = full
        DepthToSpace = reshape permute pixel_shuffle ; CRD is pixel_shuffle
        Expand
        EyeLike = eye
        Flatten = reshape
        Gather = index_select reshape ; of several dims: flattened indices
        GatherElements = gather
        GatherND = index ; one index tensor for each entry of the last dim
        NonZero = nonzero transpose
        OneHot = one_hot where movedim ; negative indices count from depth, others give off values
        Pad = pad
        Range = arange
        Reshape
        ReverseSequence = arange where gather ; the place of every element from sequence_lens
        Scatter = scatter ; deprecated, as ScatterElements
        ScatterElements = scatter scatter_reduce ; by reduction
        ScatterND = index_put scatter_reduce ; by reduction, over flattened places
        Shape = full stack ; the sizes, as int64
        Size = full ; the number of elements, as int64
        Slice = slice flip index_select ; negative steps
        SpaceToDepth = reshape permute pixel_unshuffle
        Split = split_with_sizes
        Squeeze
        TensorScatter = arange remainder index_put ; remainder: circular
        Tile = repeat
        Transpose = permute
        Trilu = tril triu
        Unsqueeze
        """
    ),
    # -------------------------------------------------------- products, convolutions, images
    **_rows(
        """
        AffineGrid = affine_grid
        AveragePool = avg_pool1d avg_pool2d avg_pool3d pad ; dilations: sliding windows of the pad
        CausalConvWithState = cat conv1d silu narrow ; the state stands before the input
        Col2Im = col2im
        Conv = conv1d conv2d conv3d pad ; uneven pads: pad
        ConvInteger = cast sub conv1d conv2d conv3d ; in int32, zero points taken off before
        ConvTranspose = conv_transpose1d conv_transpose2d conv_transpose3d slice
        DeformConv = arange add grid_sample mul matmul ; sampled at the moved places, then a product
        Det
        Einsum = einsum
        Gemm = matmul mul add transpose
        GlobalAveragePool = mean
        GlobalLpPool = vector_norm
        GlobalMaxPool = amax
        GridSample = grid_sample
        LpPool = lp_pool1d lp_pool2d lp_pool3d
        MatMul = matmul
        MatMulInteger = cast sub matmul ; in int32, zero points taken off before
        MaxPool = max_pool1d max_pool2d max_pool3d ; with return_indices for two results
        MaxRoiPool = index_select where amax ; over masks of the rows and columns of each bin
        MaxUnpool = max_unpool1d max_unpool2d max_unpool3d
        NonMaxSuppression = nms topk stack ; for each batch and class
        QLinearConv = dequantize_linear conv1d conv2d conv3d quantize_linear
        QLinearMatMul = dequantize_linear matmul quantize_linear
        Resize = resize
        RoiAlign = index_select arange add grid_sample mean ; max: index, mul and amax of corners
        Upsample = interpolate ; deprecated, as Resize
        """
    ),
    # -------------------------------------------------------- norms, attention, recurrences
    **_rows(
        """
        Attention = scaled_dot_product_attention cat mul tanh ; softcap and caches
        BatchNormalization = batch_norm
        GRU = matmul sigmoid tanh mul add ; the body of a Scan over the sequence
        GroupNormalization = group_norm
        InstanceNormalization = instance_norm
        LRN = local_response_norm
        LSTM = matmul sigmoid tanh mul add ; the body of a Scan over the sequence
        LayerNormalization = layer_norm mean rsqrt ; mean and deviation where they are asked for
        LinearAttention = exp mul matmul sub add ; the body of a Scan over the sequence
        RMSNormalization = rms_norm
        RNN = matmul tanh add ; the body of a Scan over the sequence
        RotaryEmbedding = rotary_embedding
        """
    ),
    # -------------------------------------------------------- signals, quantization, losses, random
    **_rows(
        """
        Bernoulli = bernoulli
        BlackmanWindow = blackman_window
        DFT = fft ifft rfft irfft ; by inverse and onesided
        DequantizeLinear = dequantize_linear
        Dropout = dropout copy ; not in training: a copy, and a mask of True
        DynamicQuantizeLinear = dynamic_quantize_linear
        HammingWindow = hamming_window ; alpha 25/46, beta 21/46
        HannWindow = hann_window
        MelWeightMatrix = mel_weight_matrix
        Multinomial = softmax multinomial ; of the exponentials of its input
        NegativeLogLikelihoodLoss = nll_loss
        QuantizeLinear = quantize_linear
        RandomNormal = randn mul add
        RandomNormalLike = randn_like mul add
        RandomUniform = rand mul add
        RandomUniformLike = rand_like mul add
        STFT = stft sliding_window fft ; center False; complex signals: fft of their frames
        SoftmaxCrossEntropyLoss = cross_entropy log_softmax
        """
    ),
    # -------------------------------------------------------- not operators on tensors
    "Constant": Row((), "a captured tensor of the graph", GRAPH),
    "If": Row((), "a branch of the plan", GRAPH),
    "Loop": Row((), "a loop of the plan", GRAPH),
    "Scan": Row(("select", "stack"), "a loop of the plan over slices", GRAPH),
    "ConcatFromSequence": Row(("cat", "stack"), "of a list", GRAPH),
    "SplitToSequence": Row(("split", "split_with_sizes", "unbind"), "into a list", GRAPH),
    "SequenceAt": Row((), "an entry of a list", GRAPH),
    "SequenceConstruct": Row((), "a list", GRAPH),
    "SequenceEmpty": Row((), "a list", GRAPH),
    "SequenceErase": Row((), "a list without an entry", GRAPH),
    "SequenceInsert": Row((), "a list with one entry more", GRAPH),
    "SequenceLength": Row((), "the length of a list", GRAPH),
    "SequenceMap": Row((), "a loop of the plan over a list", GRAPH),
    "Optional": Row((), "a value or None", GRAPH),
    "OptionalGetElement": Row((), "the value, which must not be None", GRAPH),
    "OptionalHasElement": Row((), "whether it is not None", GRAPH),
    "ImageDecoder": Row((), "the bytes of an image file", HOST),
    "RegexFullMatch": Row((), "strings", HOST),
    "StringConcat": Row((), "strings", HOST),
    "StringNormalizer": Row((), "strings", HOST),
    "StringSplit": Row((), "strings", HOST),
    "TfIdfVectorizer": Row((), "counts of sequences of strings or integers", HOST),
}
