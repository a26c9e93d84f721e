package deadletter

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"loaderd/stream"
	"loaderd/stream/messages"
)

// Everyone with permission to publish dead letters may write anything into them. What is read from them is bounded.
// No header of a letter is interpreted by the server when its document is published again.
func FuzzLetter(f *testing.F) {
	f.Add("Nats-Expected-Last-Sequence", "7", "application/json", []byte(`{"id":"a","text":"x"}`))
	f.Add("nats-msg-id", "x", "application/json; charset=utf-8", []byte(`{"id":1e3}`))
	f.Add("", "\xff\x00", "", []byte(`{"id":{}}`))
	f.Fuzz(func(t *testing.T, name, value, kind string, data []byte) {
		letter := nats.Header{originalPrefix + name: {value}, originalPrefix + stream.HeaderContentType: {kind},
			HeaderReason: {value}, HeaderProblem: {value},
			HeaderOriginalSequence: {value}, HeaderOriginalSubject: {value}}
		h := retryHeaders(replaceHeaders(documentHeaders(letter), map[string]string{name: value}), data)
		for k := range h {
			if strings.HasPrefix(strings.ToLower(k), "nats-") || k == "" {
				t.Errorf("header %q is published again", k)
			}
		}
		b := &Queue{}
		if l := b.parseLetter(messages.Head{Sequence: 1, Header: letter}); l.Reason != OtherReason &&
			!reasonPattern.MatchString(l.Reason) {
			t.Errorf("reason %q", l.Reason)
		}
		x := NewTally(nil, "web")
		x.reset(x.created, 1)
		x.addLetter(messages.Head{Sequence: 1, Header: letter})
		if s := x.Summary(); len(s.Reasons) != 1 || len(s.Reasons[0].Samples[0].Problem) > maxProblem+3 {
			t.Errorf("it is counted as %+v", s)
		}
	})
}

// The record of what was published again may hold anything, if other programs can write to its bucket.
func FuzzRetryRecord(f *testing.F) {
	f.Add([]byte(`{"change":"a","done":"/w=="}`), uint64(7))
	f.Add([]byte(`{"done":null}`), uint64(blockLetters-1))
	f.Fuzz(func(t *testing.T, data []byte, letter uint64) {
		var at letterBlock
		if json.Unmarshal(data, &at) != nil {
			return
		}
		at.set(letter % blockLetters)
		if !at.has(letter % blockLetters) {
			t.Errorf("letter %d is not noted", letter)
		}
		var u inFlight
		_ = json.Unmarshal(data, &u)
	})
}
