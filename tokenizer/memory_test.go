package tokenizer

import (
	"math/rand/v2"
	"testing"
	"unsafe"
)

// workerMemory is the most that an encoder may hold between texts, beside the model.
const workerMemory = 16 << 20

// held is the memory of an encoder in bytes.
func held(e *Encoder) int {
	s := &e.scratch
	n := int(unsafe.Sizeof(*e)) + int(unsafe.Sizeof(*e.cache)) + int(unsafe.Sizeof(*e.hot)) + int(unsafe.Sizeof(*e.brief)) + bytesOfSlice(e.lookup.many)
	n += cap(e.valid) + cap(e.marked) + cap(e.plain)
	n += bytesOfSlice(s.greedy.dead) + bytesOfSlice(s.greedy.alone) + cap(s.greedy.pair)
	n += bytesOfSlice(s.symbol) + bytesOfSlice(s.node) + bytesOfSlice(s.heap)
	n += bytesOfSlice(s.queue.head) + bytesOfSlice(s.queue.bit) + bytesOfSlice(s.queue.top) + bytesOfSlice(s.queue.wait) + bytesOfSlice(s.queue.at)
	for i := range e.steps.forms {
		n += cap(e.steps.forms[i].out) + bytesOfSlice(e.steps.forms[i].mark) + cap(e.steps.out[i])
	}
	return n
}

func bytesOfSlice[T any](s []T) int {
	var one T
	return cap(s) * int(unsafe.Sizeof(one))
}

func TestEncoderMemoryIsBounded(t *testing.T) {
	texts := hostileTexts(5 << 18)
	models := []*Model{mustLoadFile(t, randomSpm(rand.New(rand.NewPCG(1, 7))).object(), Options{})}
	for _, name := range Builtin() {
		models = append(models, load(t, name))
	}
	for _, m := range models {
		e := m.NewEncoder()
		var ids []int32
		for kind, text := range texts {
			ids = e.Encode(ids[:0], text)
			if n := held(e); n > workerMemory {
				t.Fatalf("%s: an encoder holds %d bytes after a text of kind %s, more than %d", m.Name(), n, kind, workerMemory)
			}
		}
	}
}
