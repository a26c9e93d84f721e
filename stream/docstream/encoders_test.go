package docstream

import (
	"sync"
	"sync/atomic"
	"testing"
)

// brittle panics on texts that begin with an exclamation mark, and when two goroutines use it at a time.
type brittle struct {
	made *atomic.Int32
	used bool
}

func (b *brittle) EncodePart(dst []int32, text []byte, first, last bool) []int32 {
	if b.used {
		panic("two use one encoder")
	}
	b.used = true
	defer func() { b.used = false }()
	if text[0] == '!' {
		panic("as asked")
	}
	for _, c := range text {
		dst = append(dst, int32(c))
	}
	return dst
}

// Many logs tokenize with few encoders. At most limit encoders exist, one that panics is replaced, and a failed
// creation does not use up the limit.
func TestEncoderPool_BoundsEncoders(t *testing.T) {
	const limit, logs, each = 3, 20, 200
	var made atomic.Int32
	tokens := Tokenization{End: -1, NewEncoder: func() Encoder {
		if n := made.Add(1); n%5 == 0 {
			panic("no memory")
		}
		return &brittle{made: &made}
	}}.WithSharedEncoders(limit - 1)
	var all sync.WaitGroup
	var panics atomic.Int32
	for range logs {
		pool := newWorkspacePool(tokens, 2)
		all.Go(func() {
			for i := range each {
				e := pool.get()
				text := []byte("a text")
				if i%50 == 49 {
					text[0] = '!'
				}
				ids, failed, _ := e.encode(text)
				pool.put(e)
				switch {
				case failed != nil && failed.Reason == encoderPanic:
					panics.Add(1)
				case failed != nil || len(ids) != len(text):
					t.Errorf("%d ids, %v", len(ids), failed)
				}
			}
		})
	}
	all.Wait()
	// Each text with an exclamation mark breaks one encoder, and every fifth creation fails.
	if n, broken := made.Load(), panics.Load(); broken < logs*each/50 || n > limit+broken+1 {
		t.Errorf("%d encoders were made, %d panicked", n, broken)
	}
	if free, unmade := len(tokens.Encoders.free), len(tokens.Encoders.creatable); free+unmade != limit {
		t.Errorf("%d encoders are free and %d can be made, of %d", free, unmade, limit)
	}
}
