package docstream

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"

	"loaderd/packonline/similarity"
	"loaderd/stream"
	"loaderd/stream/deadletter"
)

// dimension returns the dimension of the embeddings that the run compares, 0 if it compares none.
func (t Tokenization) dimension() int {
	if t.Hints == nil || t.Hints.Retriever != "dense" {
		return 0
	}
	return t.Hints.Dimension
}

// parseHeaderVector parses an embedding from a header. It is base64 of one byte (int8) or four bytes (float32,
// little-endian) per number.
func (d decoder) parseHeaderVector(value string) ([]int8, *deadletter.Problem) {
	raw, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		return nil, newProblem(badEmbedding, "header %s is not base64: %v", stream.HeaderEmbedding, err)
	}
	switch len(raw) {
	case d.dimension:
		v := make([]int8, len(raw))
		for i, b := range raw {
			v[i] = int8(b)
		}
		return newVector(v, d.dimension)
	case 4 * d.dimension:
		v := make([]float32, d.dimension)
		for i := range v {
			v[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		}
		return newVector(v, d.dimension)
	}
	return nil, newProblem(badEmbedding,
		"header %s holds %d bytes, the run's embeddings have %d numbers of one byte or four",
		stream.HeaderEmbedding, len(raw), d.dimension)
}

// parseJSONVector parses an embedding from a JSON document: a list of numbers, or null.
func (d decoder) parseJSONVector(raw []byte) ([]int8, *deadletter.Problem) {
	if string(raw) == "null" {
		return nil, nil
	}
	if bytes.Contains(raw, []byte("null")) { // the library reads null as 0, and some producers write NaN as null
		return nil, newProblem(badEmbedding, `"embedding" is not a list of numbers: null is none`)
	}
	var v []float32
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, newProblem(badEmbedding, `"embedding" is not a list of numbers: %v`, err)
	}
	return newVector(v, d.dimension)
}

func newVector[T int8 | float32](v []T, dimension int) ([]int8, *deadletter.Problem) {
	out, err := similarity.NormalizeVector(v, dimension)
	if err != nil {
		return nil, newProblem(badEmbedding, "%v", err)
	}
	return out, nil
}
