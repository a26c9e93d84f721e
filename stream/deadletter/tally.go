package deadletter

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream"
	"loaderd/stream/conn"
	"loaderd/stream/messages"
)

// Tally counts the dead letters that a stream holds, by reason, and keeps the newest of each. It reads only headers,
// each letter's once, and stores one byte per letter. A letter that the stream drops, or an operator deletes,
// therefore leaves the count. All readers of the stream get the same counts.
type Tally struct {
	store  *stream.Store
	source string

	refreshMu   sync.Mutex // one Refresh at a time
	stream      jetstream.Stream
	nextRecount time.Time // no recount before

	mu      sync.Mutex
	created time.Time // of the stream that is counted
	total   int64     // letters that the stream held at the last request
	first   uint64    // sequence of letters[0]
	letters []uint8   // by sequence: an index of reasons plus 1, 0 for no letter
	reasons [maxReasons]reasonCount
}

// reasonCount is what a Tally holds of one reason. The last entry of reasons is for all other reasons.
type reasonCount struct {
	reason  string // empty: the entry is free
	letters int64
	samples []Sample // oldest first
}

// maxCountedLetters bounds the letters that are counted. Letters before the newest ones are not counted.
const maxCountedLetters = 1 << 24

// recountPause is the minimum time between two recounts.
const recountPause = time.Minute

// NewTally returns a tally of the dead letters of a store's document stream, which belongs to a source. It is empty
// until the first Refresh.
func NewTally(s *stream.Store, source string) *Tally { return &Tally{store: s, source: source} }

// Source returns the name of the source whose letters are counted.
func (t *Tally) Source() string { return t.source }

// Refresh adds new letters and removes deleted ones since the last call. After an error, such as a lost connection,
// the next call continues where this one ended.
func (t *Tally) Refresh(ctx context.Context) error {
	t.refreshMu.Lock()
	defer t.refreshMu.Unlock()
	info, err := t.streamInfo(ctx)
	if errors.Is(err, jetstream.ErrStreamNotFound) && !t.store.Clustered() { // in a cluster a lagging server may report it
		t.stream = nil
		t.mu.Lock()
		defer t.mu.Unlock()
		t.reset(time.Time{}, 1)
		return nil
	}
	if err != nil {
		return err
	}
	next := t.adoptState(info)
	last := info.State.LastSeq
	if next <= last && info.State.Msgs > 0 {
		err = messages.EachHead(ctx, t.store.Client, t.stream, "", next, last, func(m messages.Head) bool {
			if m.Sequence <= last {
				t.addLetter(m)
			}
			return m.Sequence < last
		})
		if err != nil {
			return err
		}
	}
	t.extendTo(last)
	if t.hasDeletions(info) && !time.Now().Before(t.nextRecount) {
		t.nextRecount = time.Now().Add(recountPause)
		return t.recount(ctx)
	}
	return nil
}

// hasDeletions reports whether counted letters were deleted between others. Letters that the stream dropped precede all
// others.
func (t *Tally) hasDeletions(info *jetstream.StreamInfo) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	holes := len(t.letters)
	for _, r := range t.reasons {
		holes -= int(r.letters)
	}
	return info.State.NumDeleted > holes && t.first <= max(info.State.FirstSeq, 1)
}

// recount counts all letters again. The previous counts stay visible until that is done.
func (t *Tally) recount(ctx context.Context) error {
	fresh := NewTally(t.store, t.source)
	fresh.nextRecount = t.nextRecount // once is enough
	if err := fresh.Refresh(ctx); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.created, t.total, t.first, t.letters, t.reasons = fresh.created, fresh.total, fresh.first, fresh.letters,
		fresh.reasons
	return nil
}

// streamInfo requests the stream's state.
func (t *Tally) streamInfo(ctx context.Context) (info *jetstream.StreamInfo, err error) {
	err = t.store.Attempt(ctx, conn.AttemptTimeout, func(ctx context.Context) (err error) {
		if t.stream == nil {
			if t.stream, err = t.store.JetStream().Stream(ctx, t.store.Config().DeadLetterName()); err != nil {
				t.stream = nil
				return err
			}
			info = t.stream.CachedInfo()
			return nil
		}
		info, err = t.stream.Info(ctx)
		return err
	})
	return info, err
}

// adoptState adapts the tally to which letters the stream has, and returns the first sequence that is not counted.
func (t *Tally) adoptState(info *jetstream.StreamInfo) (next uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if created := stream.Created(info); !created.Equal(t.created) {
		t.reset(created, info.State.FirstSeq)
	}
	t.total = int64(info.State.Msgs)
	t.dropBefore(info.State.FirstSeq)
	if last := info.State.LastSeq; last >= maxCountedLetters {
		t.dropBefore(last - maxCountedLetters + 1)
	}
	return t.nextSequence()
}

// nextSequence returns the sequence after those that are counted. The caller must hold mu.
func (t *Tally) nextSequence() uint64 { return t.first + uint64(len(t.letters)) }

// dropBefore removes letters before a sequence. The caller must hold mu.
func (t *Tally) dropBefore(first uint64) {
	if first <= t.first {
		return
	}
	gone := min(first-t.first, uint64(len(t.letters)))
	for _, place := range t.letters[:gone] {
		if place > 0 {
			t.reasons[place-1].letters--
		}
	}
	rest := t.letters[gone:]
	if cap(rest) > 2*len(rest)+1<<10 {
		rest = slices.Clip(slices.Clone(rest)) // frees the dropped ones
	}
	t.letters, t.first = rest, first
	for i := range t.reasons {
		r := &t.reasons[i]
		r.samples = slices.DeleteFunc(r.samples, func(s Sample) bool { return s.Letter < first })
		if r.letters == 0 {
			*r = reasonCount{}
		}
	}
}

// addLetter counts a letter.
func (t *Tally) addLetter(m messages.Head) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.extendToLocked(m.Sequence - 1)
	if m.Sequence != t.nextSequence() {
		return // dropped or counted since
	}
	i := t.reasonIndex(parseReason(m.Header.Get(HeaderReason)))
	t.letters = append(t.letters, uint8(i+1))
	r := &t.reasons[i]
	r.letters++
	if len(r.samples) == maxSamples {
		r.samples = slices.Delete(r.samples, 0, 1)
	}
	sequence, _ := strconv.ParseUint(m.Header.Get(HeaderOriginalSequence), 10, 64) // 0 if a foreign letter has none
	r.samples = append(r.samples, Sample{Letter: m.Sequence, Source: t.source, Sequence: sequence,
		Subject: truncate(m.Header.Get(HeaderOriginalSubject), maxSubject),
		Problem: truncate(m.Header.Get(HeaderProblem), maxProblem), Time: m.Time})
}

// extendTo records that no further letters exist up to a sequence.
func (t *Tally) extendTo(sequence uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.extendToLocked(sequence)
}

// extendToLocked is reached without locking. The caller must hold mu.
func (t *Tally) extendToLocked(sequence uint64) {
	if n := sequence + 1; n > t.nextSequence() {
		t.letters = append(t.letters, make([]uint8, n-t.nextSequence())...)
	}
}

// reasonIndex returns the index at which a reason is counted. The caller must hold mu.
func (t *Tally) reasonIndex(reason string) int {
	free := maxReasons - 1
	for i := range t.reasons[:maxReasons-1] {
		switch t.reasons[i].reason {
		case reason:
			return i
		case "":
			free = min(free, i)
		}
	}
	if reason == OtherReason {
		free = maxReasons - 1
	}
	t.reasons[free].reason = reason
	if free == maxReasons-1 {
		t.reasons[free].reason = OtherReason
	}
	return free
}

// reset restarts the count. The caller must hold mu.
func (t *Tally) reset(created time.Time, first uint64) {
	t.created, t.total, t.first, t.letters, t.reasons = created, 0, max(first, 1), nil, [maxReasons]reasonCount{}
}

// Summary returns the current counts.
func (t *Tally) Summary() Summary {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := Summary{Total: t.total}
	for _, r := range t.reasons {
		if r.letters > 0 {
			reason := Reason{Reason: r.reason, Letters: r.letters, Samples: slices.Clone(r.samples)}
			keepNewest(&reason)
			out.Reasons = append(out.Reasons, reason)
		}
	}
	slices.SortFunc(out.Reasons, byLetters)
	return out
}

// reasonPattern matches the name of a reason. Everyone with permission to publish dead letters may write anything.
var reasonPattern = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,39}$`)

func parseReason(header string) string {
	if !reasonPattern.MatchString(header) {
		return OtherReason
	}
	return header
}

// truncate returns external text, truncated to n bytes.
func truncate(text string, n int) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	if len(text) > n {
		text = strings.ToValidUTF8(text[:n], "") + "..."
	}
	return strings.Clone(text) // a clone, which does not retain the whole header block
}
