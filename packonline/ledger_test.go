package packonline_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"loaderd/packonline"
	"loaderd/packonline/similarity"
)

// traits are the guarantees of a method in addition to the common ones.
type traits struct {
	keeps   bool // splits no document that fits the longest row
	repeats bool
	drops   bool
	// most returns the maximum number of buffered pieces, ignoring MaxAge.
	most func(c packonline.Config) int
}

func pool(c packonline.Config) int { return c.Pool }

// rows is the bound of a method that holds one row under construction per row length, with a token of each document
// in it.
func rows(c packonline.Config) (n int) {
	for _, l := range rowLengths(c) {
		n += int(l) - 1
	}
	return n
}

// heldAtMost returns the maximum number of pieces in held rows.
func heldAtMost(c packonline.Config) int {
	if !slices.Contains(packonline.Parameters(c.Method), "holdback") {
		return 0
	}
	n := c.Pool * c.Holdback / 100
	if c.MaxAge > 0 {
		n = min(n, c.MaxAge/4)
	}
	return n
}

// nothing is buffered.
func nothing(packonline.Config) int { return 0 }

var promises = map[string]traits{
	"concat":       {most: rows},
	"pad":          {most: nothing},
	"ffd":          {most: pool, keeps: true},
	"bfd":          {most: pool, keeps: true},
	"bfd-m":        {most: pool, drops: true},
	"seamless":     {most: pool, repeats: true, drops: true},
	"bucketllm":    {most: pool},
	"bucketllm-v0": {most: pool},
	"decompose":    {most: func(c packonline.Config) int { return c.Buckets[0] - 1 }},
	"bucket":       {most: pool, keeps: true},
	"splice":       {most: pool, keeps: true},
	"naive":        {most: rows},
}

// rowLengths returns the lengths of packed rows.
func rowLengths(c packonline.Config) []int32 {
	var out []int32
	for _, l := range c.Buckets {
		out = append(out, int32(float64(l)*min(c.Atom, 1)))
	}
	return out
}

// ledger drives a Packer and checks every invariant after every call.
type ledger struct {
	c            packonline.Config
	p            packonline.Packer
	traits       traits
	lengths      []int32 // of packed rows
	out          packonline.Rows
	index        map[uint64]int // Doc.Seq -> number in order of arrival
	docs         []entry
	oldest       int // first document with tokens that are not emitted yet, if none are dropped
	want         packonline.Counts
	lowWatermark uint64          // no later piece is of a document below it
	waits        map[uint64]bool // documents of pending pieces; only these and the next document may be emitted
	emitted      []string        // rows, for comparisons
	describe     bool            // record emitted
	hint         func(seq uint64) *similarity.Hint
}

type entry struct {
	doc    packonline.Doc
	done   int32 // tokens emitted
	pieces int
	starts []int32 // of the pieces, if they may be emitted in any order
}

func newLedger(c packonline.Config) (*ledger, error) {
	p, err := packonline.New(c)
	t, known := promises[c.Method]
	if err == nil && !known {
		err = fmt.Errorf("%s has no promises", c.Method)
	}
	if c.Method == "splice" && c.Splice.Fill == "trim" {
		t.keeps, t.drops = false, true
	}
	return &ledger{c: c, p: p, traits: t, lengths: rowLengths(c), index: map[uint64]int{}, hint: hintOf}, err
}

func (l *ledger) longest() int32 { return l.lengths[len(l.lengths)-1] }

// pack packs a document and checks the emitted rows.
func (l *ledger) pack(seq uint64, length int32) error {
	d := packonline.Doc{Seq: seq, Length: length}
	if l.c.Method == "splice" {
		d.Hint = l.hint(seq)
	}
	l.index[seq] = len(l.docs)
	l.docs = append(l.docs, entry{doc: d})
	l.want.Documents++
	l.want.Tokens += int64(length)
	l.p.Add(d, &l.out)
	if err := l.settle(); err != nil {
		return fmt.Errorf("after document %d of %d tokens: %w", len(l.docs)-1, length, err)
	}
	return nil
}

// flush also checks that nothing is left, and the numbers of split documents and of dropped tokens.
func (l *ledger) flush() error {
	l.p.Flush(&l.out)
	if err := l.settle(); err != nil {
		return fmt.Errorf("after the flush: %w", err)
	}
	if have := l.p.Pending(); have.HasPieces() || have.Tokens != 0 {
		return fmt.Errorf("flush left %+v", have)
	}
	var split, dropped int64
	for _, e := range l.docs {
		if e.pieces > 1 || l.traits.drops && e.doc.Length > l.longest() { // all but its first row may be dropped
			split++
		}
		dropped += int64(e.doc.Length - e.done)
	}
	have := l.p.Counts()
	if have.Truncated != split {
		return fmt.Errorf("%d documents were split, counted as %d", split, have.Truncated)
	}
	if have.Dropped != dropped {
		return fmt.Errorf("%d tokens were never emitted, %d are counted as dropped", dropped, have.Dropped)
	}
	return nil
}

// settle checks the emitted rows and the totals.
func (l *ledger) settle() error {
	for i := range l.out.Len() {
		if err := l.row(i); err != nil {
			return err
		}
	}
	l.out.Reset()
	have, pending := l.p.Counts(), l.p.Pending()
	l.want.Truncated, l.want.Dropped = have.Truncated, have.Dropped
	if have != l.want {
		return fmt.Errorf("counts are %+v, want %+v", have, l.want)
	}
	if sum := have.Slots - have.Padding - have.Repeated + have.Dropped + pending.Tokens; sum != have.Tokens {
		return fmt.Errorf("invariant 1: %+v and %+v are %d tokens", have, pending, sum)
	}
	if have.Dropped > 0 && !l.traits.drops {
		return fmt.Errorf("%d tokens are dropped", have.Dropped)
	}
	if d, ok := l.p.(packonline.DetailedPacker); ok && l.c.Method == "splice" {
		rows := int64(0)
		for name, n := range d.Detail() {
			if strings.HasPrefix(name, "rows_") {
				rows += n
			}
			if n < 0 {
				return fmt.Errorf("%s is %d", name, n)
			}
		}
		if rows != have.Rows+int64(pending.Held.Rows) {
			return fmt.Errorf("%d rows ended as %v", have.Rows, d.Detail())
		}
	}
	return l.settlePending(pending)
}

// settlePending checks the result of Pending.
func (l *ledger) settlePending(pending packonline.Pending) error {
	for l.oldest < len(l.docs) && l.docs[l.oldest].done == l.docs[l.oldest].doc.Length {
		l.oldest++
	}
	if pending.HasPieces() != (pending.Tokens > 0) || (pending.Held.Rows > 0) != (pending.Held.Pieces > 0) ||
		pending.Held.Rows > pending.Held.Pieces {
		return fmt.Errorf("pending is %+v", pending)
	}
	if !l.traits.drops && pending.HasPieces() != (l.oldest < len(l.docs)) {
		return fmt.Errorf("pending is %+v, and document %d of %d is the oldest with tokens to come", pending, l.oldest,
			len(l.docs))
	}
	if !l.traits.drops && pending.HasPieces() && pending.Oldest != l.docs[l.oldest].doc.Seq {
		return fmt.Errorf("pending is %+v, document %d is the oldest", pending, l.oldest)
	}
	l.lowWatermark = l.p.NextSeq()
	if pending.HasPieces() {
		l.lowWatermark = pending.Oldest
	}
	if err := l.settleWaits(pending); err != nil {
		return err
	}
	bound := l.traits.most(l.c)
	if l.c.MaxAge > 0 && !l.traits.drops {
		bound = min(bound, l.c.MaxAge)
	}
	if pending.Pieces > bound {
		return fmt.Errorf("invariant 3: %d pieces wait, at most %d may", pending.Pieces, bound)
	}
	if bound := heldAtMost(l.c); int(pending.Held.Pieces) > bound {
		return fmt.Errorf("%d pieces are held, at most %d may be", pending.Held.Pieces, bound)
	}
	return nil
}

// settleWaits checks which documents are pending. It does not run after every document, which would take too long for
// a large pool.
func (l *ledger) settleWaits(pending packonline.Pending) error {
	l.waits = nil
	if len(l.docs)%16 > 0 {
		return nil
	}
	pieces, tokens, oldest := 0, int64(0), l.p.NextSeq()
	l.waits = map[uint64]bool{}
	l.p.Each(func(x packonline.Piece) {
		pieces++
		tokens += int64(x.Length)
		oldest = min(oldest, x.Doc)
		l.waits[x.Doc] = true
	})
	if tokens != pending.Tokens {
		return fmt.Errorf("pieces of %d tokens are pending, but pending is %+v", tokens, pending)
	}
	if pieces != pending.Pieces+int(pending.Held.Pieces) || pending.HasPieces() && oldest != pending.Oldest {
		return fmt.Errorf("%d pieces are pending and %d is the oldest document, but pending is %+v", pieces, oldest, pending)
	}
	return nil
}

func (l *ledger) row(i int) error {
	length, pieces, ages := l.out.Row(i)
	if !slices.Contains(l.lengths, length) || len(pieces) == 0 || len(ages) != len(pieces) {
		return fmt.Errorf("a row of %d tokens has %d pieces and %d ages", length, len(pieces), len(ages))
	}
	if l.out.IsJoined(i) && (!packonline.HasJoinedRows(l.c.Method) || i == 0) {
		return fmt.Errorf("row %d is joined to the one before", i)
	}
	var used int64
	for k, x := range pieces {
		if err := l.piece(x, ages[k]); err != nil {
			return err
		}
		used += int64(x.Length)
	}
	if most := l.c.MaxDocumentsPerRow; most > 0 && len(pieces) > most {
		return fmt.Errorf("a row has %d documents, at most %d may share one", len(pieces), most)
	}
	if used > int64(length) {
		return fmt.Errorf("a row of %d tokens holds %d", length, used)
	}
	l.want.Rows++
	l.want.Slots += int64(length)
	l.want.Padding += int64(length) - used
	if l.describe {
		l.emitted = append(l.emitted, fmt.Sprint(length, pieces, ages, l.out.IsJoined(i)))
	}
	return nil
}

// follows checks that each token is emitted once unless the method repeats tokens, and in order unless rows are held.
// A holdback may emit the rest of a document before its full rows.
func (l *ledger) follows(e *entry, x packonline.Piece) error {
	end := x.Start + x.Length
	overlaps := l.traits.repeats && x.Start < e.done && end > e.done
	inOrder := x.Start == e.done || overlaps
	if heldAtMost(l.c) > 0 {
		inOrder = x.Start%l.longest() == 0 && !slices.Contains(e.starts, x.Start) && x.Length <= l.longest()
	}
	if x.Start < 0 || x.Length < 1 || end > e.doc.Length || !inOrder {
		return fmt.Errorf("%d tokens of %+v are out, now comes %+v", e.done, e.doc, x)
	}
	if heldAtMost(l.c) > 0 {
		e.starts = append(e.starts, x.Start)
		e.done += x.Length
		return nil
	}
	l.want.Repeated += int64(e.done - x.Start)
	e.done = end
	return nil
}

// piece checks one emitted piece.
func (l *ledger) piece(x packonline.Piece, haveAge uint32) error {
	i, known := l.index[x.Doc]
	if !known {
		return fmt.Errorf("document %d was never added", x.Doc)
	}
	if l.waits != nil && i+1 < len(l.docs) && !l.waits[x.Doc] {
		return fmt.Errorf("%+v comes although its document did not wait", x)
	}
	e := &l.docs[i]
	if err := l.follows(e, x); err != nil {
		return err
	}
	e.pieces++
	age := len(l.docs) - 1 - i
	if haveAge != uint32(age) {
		return fmt.Errorf("%+v has age %d, reported as %d", x, age, haveAge)
	}
	wait, _ := l.c.AtomWait()
	if l.c.MaxAge > 0 && age > l.c.MaxAge-wait {
		return fmt.Errorf("invariant 4: %+v has age %d, the bound is %d less %d for gathering atoms", x, age,
			l.c.MaxAge, wait)
	}
	if x.Doc < l.lowWatermark {
		return fmt.Errorf("%+v comes although document %d was the oldest that waited", x, l.lowWatermark)
	}
	if l.traits.keeps && e.doc.Length <= l.longest() && x.Length != e.doc.Length {
		return fmt.Errorf("invariant 2: %+v is only a part of %+v", x, e.doc)
	}
	return nil
}

// packList packs documents, including the final flush. No document that fits a row is split.
func packList(t *testing.T, c packonline.Config, in []int32) packonline.Counts {
	t.Helper()
	l, err := newLedger(c)
	if err != nil {
		t.Fatal(err)
	}
	var split int64
	for i, n := range in {
		if n > l.longest() {
			split++
		}
		if err := l.pack(uint64(i), n); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.flush(); err != nil {
		t.Fatal(err)
	}
	have := l.p.Counts()
	if have.Truncated != split {
		t.Errorf("%+v splits %d documents, %d are longer than a row", c, have.Truncated, split)
	}
	return have
}

// restart transfers the state to a new Packer, between bytes that are not part of it.
func (l *ledger) restart() error {
	state := l.p.AppendState([]byte("before"))[len("before"):]
	fresh, err := packonline.New(l.c)
	if err != nil {
		return err
	}
	rest, err := fresh.RestoreState(append(state, "behind"...))
	if err != nil {
		return err
	}
	if string(rest) != "behind" {
		return fmt.Errorf("%q is left of the state", rest)
	}
	giveHints(fresh, l.hint)
	if again := fresh.AppendState(nil); !bytes.Equal(again, state) {
		return fmt.Errorf("state %x becomes %x when it is restored", state, again)
	}
	if d, ok := fresh.(packonline.DetailedPacker); ok {
		if have, want := d.Detail(), l.p.(packonline.DetailedPacker).Detail(); !maps.Equal(have, want) {
			return fmt.Errorf("counts %v become %v when they are restored", want, have)
		}
	}
	l.p = fresh
	return nil
}

// randomLengths draws lengths from a random distribution: constant ones, tiny ones, ones near the row's length, and
// huge ones.
func randomLengths(r *rand.Rand, n, row int) []int32 {
	out := make([]int32, n)
	kind, constant := r.IntN(7), 1+r.Int32N(int32(2*row))
	for i := range out {
		k := kind
		if k == 6 {
			k = r.IntN(6)
		}
		switch k {
		case 0:
			out[i] = constant
		case 1:
			out[i] = 1
		case 2:
			out[i] = 1 + r.Int32N(int32(row))
		case 3:
			out[i] = 1 + r.Int32N(int32(3*row))
		case 4:
			out[i] = int32(max(1, row-2+r.IntN(5)))
		case 5:
			out[i] = 1 + r.Int32N(4)
			if r.IntN(50) == 0 {
				out[i] = int32(row*1000) + r.Int32N(int32(row))
			}
		}
	}
	return out
}

// randomConfig draws row lengths, bounds and parameters that are valid for the method.
func randomConfig(r *rand.Rand, method string) packonline.Config {
	c := config(method, 0, 1+r.IntN(60), 0)
	for {
		c.Atom = []float64{1, 1, 1, 0.25, 0.5, 2, 4}[r.IntN(7)]
		most := 40
		if r.IntN(4) == 0 {
			most = 5000
		}
		c.Buckets = randomBuckets(r, method, most)
		for i := range c.Buckets {
			c.Buckets[i] = int(float64(c.Buckets[i]) / min(c.Atom, 1))
		}
		c.MaxAge = 0
		if r.IntN(3) > 0 {
			c.MaxAge = 1 + r.IntN(150)
		}
		c.Holdback = []int{0, 100, r.IntN(300)}[r.IntN(3)]
		c.Overlap = []float64{0, 0.3, r.Float64()}[r.IntN(3)]
		c.Extra = r.IntN(c.Buckets[0] + 1)
		c.PaddingThreshold = []float64{0, 0.02, r.Float64()}[r.IntN(3)]
		c.Seed = r.Uint64()
		c.Splice = randomSplice(r)
		c.MaxDocumentsPerRow = max(0, r.IntN(12)-6)
		if len(c.Validate()) == 0 {
			return c
		}
	}
}

func randomBuckets(r *rand.Rand, method string, most int) []int {
	out := []int{2 + r.IntN(most)}
	if !packonline.IsMultiBucket(method) {
		return out
	}
	if r.IntN(2) == 0 { // powers of two
		out[0] = 2 << r.IntN(6)
		for range r.IntN(4) {
			out = append(out, 2*out[len(out)-1])
		}
		return out
	}
	for range r.IntN(4) {
		out = append(out, out[len(out)-1]+1+r.IntN(most))
	}
	return out
}
