package packonline_test

import (
	"fmt"
	"math/rand/v2"

	"loaderd/packonline"
)

// ledger follows a Packer from outside and checks every invariant after every call.
type ledger struct {
	c        packonline.Config
	p        packonline.Packer
	out      packonline.Rows
	index    map[uint64]int // Doc.Seq -> number in order of arrival
	docs     []entry
	oldest   int // first document with tokens to come
	want     packonline.Counts
	waiting  int64    // tokens
	emitted  []string // rows, for comparisons
	describe bool     // keep emitted
}

type entry struct {
	doc    packonline.Doc
	done   int32 // tokens emitted
	pieces int
}

func newLedger(c packonline.Config) (*ledger, error) {
	p, err := packonline.New(c)
	return &ledger{c: c, p: p, index: map[uint64]int{}}, err
}

func (l *ledger) add(seq uint64, length int32) error {
	d := packonline.Doc{Seq: seq, Length: length}
	l.index[seq] = len(l.docs)
	l.docs = append(l.docs, entry{doc: d})
	l.want.Documents++
	l.want.Tokens += int64(length)
	l.waiting += int64(length)
	l.p.Add(d, &l.out)
	if err := l.settle(); err != nil {
		return fmt.Errorf("after document %d of %d tokens: %w", len(l.docs)-1, length, err)
	}
	return nil
}

// flush also checks that nothing is left and that the number of split documents is right.
func (l *ledger) flush() error {
	l.p.Flush(&l.out)
	if err := l.settle(); err != nil {
		return fmt.Errorf("after the flush: %w", err)
	}
	if have := l.p.Pending(); have.Pieces != 0 || have.Tokens != 0 {
		return fmt.Errorf("flush left %+v", have)
	}
	var split int64
	for _, e := range l.docs {
		if e.pieces > 1 {
			split++
		}
	}
	if have := l.p.Counts().Truncated; have != split {
		return fmt.Errorf("%d documents were split, counted as %d", split, have)
	}
	return nil
}

// settle checks what came out and the totals.
func (l *ledger) settle() error {
	for i := range l.out.Len() {
		if err := l.row(l.out.Row(i)); err != nil {
			return err
		}
	}
	l.out.Reset()
	for l.oldest < len(l.docs) && l.docs[l.oldest].done == l.docs[l.oldest].doc.Length {
		l.oldest++
	}
	have, pending := l.p.Counts(), l.p.Pending()
	l.want.Truncated = have.Truncated
	if have != l.want {
		return fmt.Errorf("counts are %+v, want %+v", have, l.want)
	}
	if sum := have.Slots - have.Padding - have.Repeated + have.Dropped + pending.Tokens; sum != have.Tokens || pending.Tokens != l.waiting {
		return fmt.Errorf("invariant 1: %+v and %+v are %d tokens", have, pending, sum)
	}
	if (pending.Pieces > 0) != (l.waiting > 0) || l.waiting > 0 && pending.Oldest != l.docs[l.oldest].doc.Seq {
		return fmt.Errorf("pending is %+v, %d tokens wait and document %d is the oldest", pending, l.waiting, l.oldest)
	}
	bound := l.c.Pool
	if l.c.Method == "concat" {
		bound = l.c.Buckets[0] - 1
	}
	if l.c.MaxAge > 0 {
		bound = min(bound, l.c.MaxAge)
	}
	if pending.Pieces > bound {
		return fmt.Errorf("invariant 3: %d pieces wait, at most %d may", pending.Pieces, bound)
	}
	return nil
}

func (l *ledger) row(length int32, pieces []packonline.Piece, ages []uint32) error {
	if int(length) != l.c.Buckets[0] || len(pieces) == 0 || len(ages) != len(pieces) {
		return fmt.Errorf("a row of %d tokens has %d pieces and %d ages", length, len(pieces), len(ages))
	}
	var used int64
	for k, x := range pieces {
		i, known := l.index[x.Doc]
		if !known {
			return fmt.Errorf("document %d was never added", x.Doc)
		}
		e := &l.docs[i]
		if x.Start != e.done || x.Length < 1 || x.Length > e.doc.Length-e.done {
			return fmt.Errorf("%d tokens of %+v are out, now comes %+v", e.done, e.doc, x)
		}
		e.done += x.Length
		e.pieces++
		used += int64(x.Length)
		age := len(l.docs) - 1 - i
		if ages[k] != uint32(age) {
			return fmt.Errorf("%+v has age %d, reported as %d", x, age, ages[k])
		}
		if l.c.MaxAge > 0 && age > l.c.MaxAge {
			return fmt.Errorf("invariant 4: %+v has age %d, the bound is %d", x, age, l.c.MaxAge)
		}
		if l.c.Method == "bfd" && int(e.doc.Length) <= l.c.Buckets[0] && x.Length != e.doc.Length {
			return fmt.Errorf("invariant 2: %+v is only a part of %+v", x, e.doc)
		}
	}
	if used > int64(length) {
		return fmt.Errorf("a row of %d tokens holds %d", length, used)
	}
	l.want.Rows++
	l.want.Slots += int64(length)
	l.want.Padding += int64(length) - used
	l.waiting -= used
	if l.describe {
		l.emitted = append(l.emitted, fmt.Sprint(length, pieces, ages))
	}
	return nil
}

// restart carries the state over to a fresh Packer, behind and before bytes that are not its own.
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
	l.p = fresh
	return nil
}

// randomLengths draws lengths from a distribution that is itself drawn: constant ones, tiny ones, ones near the row's and huge ones.
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

func randomConfig(r *rand.Rand, method string) packonline.Config {
	c := config(method, 2+r.IntN(40), 1+r.IntN(60), 0)
	if r.IntN(3) > 0 {
		c.MaxAge = 1 + r.IntN(150)
	}
	if r.IntN(4) == 0 {
		c.Buckets[0] = 2 + r.IntN(5000)
	}
	c.Seed = r.Uint64()
	return c
}
