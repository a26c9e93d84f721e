package planner_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"loaderd/loader/internal/plantest"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/loader/runconfig"
	"loaderd/packonline"
	"loaderd/shuffle"
)

// model is the simplest possible planner: it packs all documents, makes atoms of the rows, shuffles the atoms, and
// makes rows and steps of them. When the row lengths change, it starts again with the tokens that are in no step.
type model struct {
	t      *rapid.T
	c      runconfig.Config
	unused map[uint64][]int32 // by document, the tokens that its packer has; a packer numbers them from 0
	packer packonline.Packer
	out    packonline.Rows
	window *shuffle.Window[modelAtom]
	atoms  map[int][]modelAtom // by bucket, before the window
	parts  map[int][]modelAtom // by bucket, after the window: atoms of the row under construction
	rows   map[int][][]packonline.Piece
	since  map[int]uint64 // by bucket, the documents packed before its first open atom or part
	packed uint64         // documents passed to the packer
	steps  []plan.Step
	tokens int64 // in steps
	cursor uint64
}

type modelAtom struct {
	bucket int
	rows   [][]packonline.Piece
}

func newModel(t *rapid.T, c runconfig.Config) *model {
	c.Packing.Seed, c.Shuffle.Seed = c.Seed, c.Seed
	m := &model{t: t, c: c}
	m.restart()
	return m
}

// restart begins with empty buffers, for the row lengths of the configuration.
func (m *model) restart() {
	var err error
	if m.packer, err = packonline.New(m.c.Packing); err != nil {
		m.t.Fatal(err)
	}
	m.window, m.unused = shuffle.New[modelAtom](m.c.Shuffle), map[uint64][]int32{}
	m.atoms, m.parts, m.since = map[int][]modelAtom{}, map[int][]modelAtom{}, map[int]uint64{}
	m.rows, m.packed = map[int][][]packonline.Piece{}, 0
}

// lengths returns the row lengths of the next step.
func (m *model) lengths() []int {
	lengths, _ := plantest.StepTable(m.c, len(m.steps), m.tokens)
	return lengths
}

// isOutdated reports whether the next step has other row lengths.
func (m *model) isOutdated() bool { return !slices.Equal(m.lengths(), m.c.Packing.Buckets) }

// repack starts again with the row lengths of the next step.
func (m *model) repack() {
	left := map[uint64][]int32{}
	buffer := func(rows ...[]packonline.Piece) {
		for _, x := range slices.Concat(rows...) {
			for k := range x.Length {
				left[x.Doc] = append(left[x.Doc], x.Start+k)
			}
		}
	}
	m.packer.Each(func(x packonline.Piece) { buffer(m.place([]packonline.Piece{x})) })
	m.window.Each(func(a modelAtom) { buffer(a.rows...) })
	for _, bucket := range m.c.Packing.Buckets {
		for _, a := range slices.Concat(m.atoms[bucket], m.parts[bucket]) {
			buffer(a.rows...)
		}
		buffer(m.rows[bucket]...)
	}
	m.c.Packing.Buckets = m.lengths()
	m.restart()
	for _, doc := range slices.Sorted(maps.Keys(left)) {
		slices.Sort(left[doc])
		m.add(doc, slices.Compact(left[doc]))
	}
}

// add passes tokens of a document to the packer.
func (m *model) add(doc uint64, tokens []int32) {
	m.unused[doc] = tokens
	m.packer.Add(packonline.Doc{Seq: doc, Length: int32(len(tokens))}, &m.out)
	m.packed++
	m.settle(false)
}

// place returns packed pieces as pieces of the documents.
func (m *model) place(row []packonline.Piece) (out []packonline.Piece) {
	for _, x := range row {
		for _, at := range m.unused[x.Doc][x.Start : x.Start+x.Length] {
			if n := len(out); at > m.unused[x.Doc][x.Start] && out[n-1].Start+out[n-1].Length == at {
				out[n-1].Length++
			} else {
				out = append(out, packonline.Piece{Doc: x.Doc, Start: at, Length: 1})
			}
		}
	}
	return out
}

func (m *model) feed(seq uint64, length int) {
	m.cursor = seq
	tokens := make([]int32, length)
	for i := range tokens {
		tokens[i] = int32(i)
	}
	m.add(seq, tokens)
	m.submitLate()
	for m.isOutdated() {
		m.repack()
		m.submitLate()
	}
}

// submitLate submits the atoms and parts that would wait too long with the next document.
func (m *model) submitLate() {
	wait, bounded := m.c.Packing.AtomWait()
	for _, bucket := range m.c.Packing.Buckets {
		if !bounded || m.packed-m.since[bucket] < uint64(wait) {
			continue
		}
		for _, a := range m.atoms[bucket] {
			m.window.Add(a, m.arrange)
		}
		m.atoms[bucket] = nil
		m.merge(bucket)
	}
}

func (m *model) flush() {
	for m.flushOnce(); m.isOutdated(); m.flushOnce() {
		m.repack()
	}
}

func (m *model) flushOnce() {
	m.packer.Flush(&m.out)
	m.settle(true)
	m.window.Flush(m.arrange)
	for _, bucket := range m.c.Packing.Buckets {
		m.merge(bucket)
	}
}

// settle makes atoms of the packed rows. All but the last atom of a bucket are complete. The last is complete if it
// is full, if the method starts a new atom with a document, or if nothing follows.
func (m *model) settle(flushed bool) {
	atom := m.c.Packing.Atom
	most := int(max(atom, 1))
	var order []int // buckets of complete atoms, in the order of completion
	for i := range m.out.Len() {
		length, packed, _ := m.out.Row(i)
		pieces := m.place(packed)
		bucket := int(float64(length) / min(atom, 1))
		atoms := m.atoms[bucket]
		if n := len(atoms); m.out.IsJoined(i) || n > 0 && len(atoms[n-1].rows) < most && m.c.Packing.Method != "pad" {
			atoms[n-1].rows = append(atoms[n-1].rows, slices.Clone(pieces))
		} else {
			if n == 0 {
				m.since[bucket] = m.packed
			}
			atoms = append(atoms, modelAtom{bucket, [][]packonline.Piece{slices.Clone(pieces)}})
		}
		m.atoms[bucket] = atoms
		if m.c.Packing.Method != "pad" && len(atoms[len(atoms)-1].rows) == most {
			order = append(order, bucket)
		}
	}
	m.out.Reset()
	for _, bucket := range order {
		m.window.Add(m.atoms[bucket][0], m.arrange)
		m.atoms[bucket] = m.atoms[bucket][1:]
	}
	if flushed || m.c.Packing.Method == "pad" {
		for _, bucket := range m.c.Packing.Buckets {
			for _, a := range m.atoms[bucket] {
				m.window.Add(a, m.arrange)
			}
			m.atoms[bucket] = nil
		}
	}
}

func (m *model) arrange(a modelAtom) {
	if m.c.Packing.Atom >= 1 {
		for _, row := range a.rows {
			m.step(a.bucket, row)
		}
		return
	}
	if len(m.parts[a.bucket]) == 0 {
		m.since[a.bucket] = m.packed
	}
	m.parts[a.bucket] = append(m.parts[a.bucket], a)
	if float64(len(m.parts[a.bucket]))*m.c.Packing.Atom == 1 {
		m.merge(a.bucket)
	}
}

// merge makes a row of the atoms collected for it. Adjacent pieces become one.
func (m *model) merge(bucket int) {
	var row []packonline.Piece
	for _, a := range m.parts[bucket] {
		row = append(row, a.rows[0]...)
	}
	for i := 1; i < len(row); {
		if row[i].Doc == row[i-1].Doc && row[i].Start == row[i-1].Start+row[i-1].Length {
			row[i-1].Length += row[i].Length
			row = slices.Delete(row, i, i+1)
		} else {
			i++
		}
	}
	m.parts[bucket] = nil
	if row != nil {
		m.step(bucket, row)
	}
}

func (m *model) step(bucket int, row []packonline.Piece) {
	rows := append(m.rows[bucket], row)
	for !m.isOutdated() {
		n := plantest.StepRows(m.c, bucket, len(m.steps), m.tokens)
		if len(rows) < n {
			break
		}
		s := plan.Step{Index: uint64(len(m.steps)), Bucket: int32(bucket), Rows: rows[:n:n],
			Cursor: plan.PositionAfter(m.cursor)}
		if s.Index%plan.SourcePositionInterval == 0 {
			s.SourcePositions = []mixture.SourcePosition{{Taken: m.cursor}}
		}
		tokens := int64(0)
		for _, row := range rows[:n] {
			tokens += plan.RowTokens(row)
		}
		if m.c.Mix.Share.CountsLoss() { // all documents of the model are of one source and without masks
			s.SourceLossTokens = []int64{tokens}
		}
		m.steps, m.tokens = append(m.steps, s), m.tokens+tokens
		rows = rows[n:]
	}
	m.rows[bucket] = rows
}

// The planner packs, shuffles atoms and merges or splits them into rows as the model does, for every method and atom.
func TestPlanner_MatchesModel(t *testing.T) {
	checkMethods(t, func(t *rapid.T, c runconfig.Config) {
		c.Documents.Dedupe, c.Steps.Backlog, c.Steps.MaxWait, c.Steps.Table, c.Steps.Balance, c.Packing.RepeatLoss = 0, 0, 0,
			nil, false, ""
		if slices.ContainsFunc(append([]runconfig.Phase{{Buckets: c.Packing.Buckets}}, c.Steps.Schedule...),
			func(p runconfig.Phase) bool { return len(p.Buckets) > 1 }) {
			c.Steps.Schedule = nil // smaller steps may then be full in several buckets, which are drawn
		}
		p, m := newPlanner(t, c), newModel(t, c)
		var steps []plan.Step
		for i, n := range rapid.SliceOfN(rapid.IntRange(1, 90), 0, 80).Draw(t, "lengths") {
			out, err := p.Add(plan.Arrival{Sequence: uint64(i + 1), Length: n})
			if err != nil {
				t.Fatal(err)
			}
			steps = append(steps, out...)
			m.feed(uint64(i+1), n)
			if rapid.IntRange(0, 30).Draw(t, "flush") == 0 {
				steps = append(steps, p.Flush()...)
				m.flush()
			}
		}
		steps = append(steps, p.Flush()...)
		m.flush()
		for i := range steps {
			steps[i].LowWatermark = plan.Position{} // the model has no low watermark
		}
		if !reflect.DeepEqual(steps, m.steps) {
			t.Fatalf("the planner makes\n%v\nthe model\n%v", steps, m.steps)
		}
		pool, window, queued := p.BufferSizes()
		for _, rows := range m.rows {
			queued -= len(rows)
		}
		if pool.Pieces != 0 || window != 0 || queued != 0 {
			t.Fatalf("%+v, %d atoms and %d rows too many wait", pool, window, queued)
		}
	})
}

// Without a shuffle and with steps of one row, no piece is older than Packing.MaxAge when its step is made. This is
// true for every method, atom and set of buckets.
func TestPlanner_BoundsAgesWithAtoms(t *testing.T) {
	checkMethods(t, func(t *rapid.T, c runconfig.Config) {
		most := rapid.IntRange(1, 60).Draw(t, "most")
		c.Packing.MaxAge, c.Shuffle.Window, c.Steps = most, 0, runconfig.Steps{Rows: 1, Last: runconfig.LastPad}
		c.Documents.Dedupe, c.Packing.RepeatLoss = 0, ""
		p := newPlanner(t, c)
		for i, n := range rapid.SliceOfN(rapid.IntRange(1, 90), 0, 200).Draw(t, "lengths") {
			now := uint64(i + 1)
			steps, err := p.Add(plan.Arrival{Sequence: now, Length: n})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range steps {
				for _, x := range slices.Concat(s.Rows...) {
					if age := now - x.Doc; age > uint64(most) {
						t.Fatalf("step %d: %+v is %d documents old, the bound is %d", s.Index, x, age, most)
					}
				}
			}
		}
	})
}

// Without a shuffle, concat plans the same rows for every atom: parts of rows are merged again, and the rows of an
// atom are consecutive.
func TestPlanner_AtomsWithoutShuffleKeepRows(t *testing.T) {
	planned := func(atom float64) []plan.Step {
		c := plantest.Config("concat")
		c.Packing.Atom, c.Packing.MaxAge, c.Shuffle.Window = atom, 0, 0
		p, err := planner.New(plantest.Header(c))
		if err != nil {
			t.Fatal(err)
		}
		var steps []plan.Step
		for i, n := range plantest.Lengths(4, 500) {
			out, err := p.Add(plan.Arrival{Sequence: uint64(i + 1), Length: n})
			if err != nil {
				t.Fatal(err)
			}
			steps = append(steps, out...)
		}
		steps = append(steps, p.Seal()...)
		for i := range steps {
			steps[i].Cursor = plan.Position{} // atoms of several rows leave when their last row is full
		}
		return steps
	}
	want := planned(1)
	for _, atom := range []float64{0.25, 0.5, 2, 4} {
		if have := planned(atom); !reflect.DeepEqual(have, want) {
			t.Errorf("atoms of %v rows give\n%v\nwant\n%v", atom, have, want)
		}
	}
}

// Atoms of half a row and of two rows: rows of 8 tokens, two per step, documents of 3, 4, 5, 8 and 20 tokens.
func TestPlanner_AtomExamples(t *testing.T) {
	for _, x := range []struct {
		method string
		atom   float64
		want   string
	}{
		// Atoms of 4: a, b, c[0:3], c[3:5], d[0:3], d[3:6], d[6:8], and pieces of 3 tokens of e. Two of them make a row,
		// with the padding after them.
		{"pad", 0.5, "[[{1 0 3} {2 0 4}] [{3 0 5}]] [[{4 0 6}] [{4 6 2} {5 0 3}]] [[{5 3 6}] [{5 9 6}]] [[{5 15 5}] []]"},
		{"pad", 2, "[[{1 0 3}] [{2 0 4}]] [[{3 0 5}] [{4 0 8}]] [[{5 0 8}] [{5 8 7}]] [[{5 15 5}] []]"},
		{"concat", 2, "[[{1 0 3} {2 0 4} {3 0 1}] [{3 1 4} {4 0 4}]] [[{4 4 4} {5 0 4}] [{5 4 8}]] [[{5 12 8}] []]"},
	} {
		c := plantest.Config(x.method)
		c.Packing.Buckets, c.Packing.Atom, c.Shuffle.Window, c.Steps.Rows = []int{8}, x.atom, 0, 2
		p, err := planner.New(plantest.Header(c))
		if err != nil {
			t.Fatal(err)
		}
		var have []any
		for i, n := range []int{3, 4, 5, 8, 20} {
			steps, err := p.Add(plan.Arrival{Sequence: uint64(i + 1), Length: n})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range steps {
				have = append(have, s.Rows)
			}
		}
		for _, s := range p.Seal() {
			have = append(have, s.Rows)
		}
		if s := fmt.Sprint(have...); s != x.want {
			t.Errorf("%s in atoms of %v rows:\n%s\nwant\n%s", x.method, x.atom, s, x.want)
		}
	}
}
