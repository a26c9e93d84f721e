package loader_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"pgregory.net/rapid"

	"loaderd/loader"
	"loaderd/loader/plan"
)

// strictDocs does not deliver a document that is purged, not even to a source that began before.
type strictDocs struct{ *memDocs }

type strictSource struct {
	loader.Source
	docs *memDocs
}

func (d strictDocs) Read(ctx context.Context, from uint64) (loader.Source, error) {
	s, err := d.memDocs.Read(ctx, from)
	return strictSource{s, d.memDocs}, err
}

func (s strictSource) Next(ctx context.Context) ([]loader.Document, error) {
	docs, err := s.Source.Next(ctx)
	if err == nil && docs[0].Sequence < s.docs.state().First {
		return nil, errPurged
	}
	return docs, err
}

// allDocs is the stream as if nothing had been purged.
type allDocs struct{ *memDocs }

func (d allDocs) Read(_ context.Context, from uint64) (loader.Source, error) {
	return newSource(d.memDocs, from), nil
}

// runFloors is one run's entry among those of all runs that read the documents.
type runFloors struct {
	docs *memDocs
	all  map[string]runFloor
	run  string
}

// runFloor is what a run needs, and the term that says so.
type runFloor struct{ from, term uint64 }

// change takes a term's word, unless a later one has spoken.
func (f runFloors) change(term uint64, change func(was uint64) uint64) (uint64, error) {
	f.docs.mu.Lock()
	defer f.docs.mu.Unlock()
	was := f.all[f.run]
	if term < was.term {
		return 0, fmt.Errorf("%w: term %d follows term %d", loader.ErrDeposed, was.term, term)
	}
	f.all[f.run] = runFloor{change(was.from), term}
	return f.all[f.run].from, nil
}

func (f runFloors) Begin(ctx context.Context, from uint64) (uint64, error) {
	return f.Claim(ctx, 0, from)
}

func (f runFloors) Claim(_ context.Context, term, from uint64) (uint64, error) {
	return f.change(term, func(uint64) uint64 { return max(from, f.docs.first) })
}

func (f runFloors) Tell(context.Context) error { return nil }

func (f runFloors) Ends(_ context.Context, term, _ uint64) error {
	_, err := f.change(term, func(was uint64) uint64 { return was })
	return err
}

func (f runFloors) Release(_ context.Context, term, from uint64) (uint64, error) {
	least, err := f.change(term, func(was uint64) uint64 { return max(was, from) })
	if err != nil {
		return 0, err
	}
	f.docs.mu.Lock()
	defer f.docs.mu.Unlock()
	for _, x := range f.all {
		least = min(least, x.from)
	}
	f.docs.first = max(f.docs.first, least)
	return f.docs.first, nil
}

// reference is a planner that nothing happens to, with a simple account of what goes into it.
type reference struct {
	header  plan.Header
	planner *plan.Planner
	steps   []plan.Step
	read    int            // records of the plan log
	control []plan.Control // recorded, not yet applied
	known   []plan.Control // all that were recorded
	sealed  bool
	window  []uint64 // ids of the latest documents, for what is a duplicate
	in      int64    // tokens of used documents
	used    map[uint64]bool
}

// floor returns the first document that step or a later one may need.
func (r *reference) floor(step int) uint64 {
	switch {
	case step > 0:
		return r.steps[step-1].Floor.Next()
	case r.header.Parent != nil:
		return r.header.Parent.Floor
	}
	return r.header.Start
}

// follow lets the reference make the steps that the run has made, and compares them.
func (m *machine) follow(rt *rapid.T) {
	planned := int(m.run.Info().Planned)
	m.world.plan.mu.Lock()
	records := slices.Clone(m.world.plan.records)
	m.world.plan.mu.Unlock()
	if len(records) == 0 {
		return
	}
	if m.ref == nil {
		e, err := plan.DecodeRecord(records[0])
		if err != nil {
			rt.Fatal(err)
		}
		h := e.(plan.Header)
		p, err := h.NewPlanner()
		if err != nil {
			rt.Fatal(err)
		}
		m.ref = &reference{header: h, planner: p, used: map[uint64]bool{}}
	}
	r := m.ref
	for _, b := range records[r.read:] {
		e, err := plan.DecodeRecord(b)
		if err != nil {
			rt.Fatal(err)
		}
		if c, ok := e.(plan.Control); ok {
			r.control, r.known = append(r.control, c), append(r.known, c)
		}
		r.read++
	}
	compared := len(r.steps)
	for len(r.steps) < planned {
		if !m.advance(rt, r) {
			rt.Fatalf("the run has planned %d steps, there are %d: behind document %d of %d, sealed %v, controls %+v",
				planned, len(r.steps), r.planner.Cursor(), m.last(), r.sealed, r.known)
		}
	}
	for i := min(compared, planned); i < planned; i++ {
		s, err := m.run.Step(m.t.Context(), uint64(i))
		if err != nil {
			rt.Fatalf("step %d: %v", i, err)
		}
		if !reflect.DeepEqual(*s, r.steps[i]) {
			rt.Fatalf("step %d is %+v, want %+v", i, *s, r.steps[i])
		}
	}
}

// advance applies a control that is due or feeds a document. It returns false when neither is left.
func (m *machine) advance(rt *rapid.T, r *reference) bool {
	var steps []plan.Step
	switch at := r.planner.Cursor().Last(); {
	case r.sealed:
		return false
	case len(r.control) > 0 && r.control[0].Behind() < at:
		rt.Fatalf("%s is to take effect, the plan is at %d", r.control[0], at)
	case len(r.control) > 0 && r.control[0].Behind() == at:
		if _, r.sealed = r.control[0].(plan.Seal); r.sealed {
			steps = r.planner.Seal()
		} else {
			steps = r.planner.Drain()
		}
		r.control = r.control[1:]
	case at < m.last():
		m.docs.mu.Lock()
		d := m.docs.docs[at]
		m.docs.mu.Unlock()
		var err error
		if steps, err = r.planner.Add(plan.Arrival{Sequence: d.Sequence, ID: d.ID, Length: len(d.Tokens), Skip: d.Skip, Traits: plan.Traits{Hint: d.Hint}}); err != nil {
			rt.Fatal(err)
		}
		m.account(r, d)
	default:
		return false
	}
	r.steps = append(r.steps, steps...)
	counts, packed := r.planner.Counts()
	if out := counts.Tokens - packed.Repeated + packed.Dropped + counts.LeftTokens + r.planner.WaitingTokens(); out != r.in || packed.Tokens != r.in {
		rt.Fatalf("behind document %d %d tokens are accounted for and the packer had %d, want %d: %+v, %+v", r.planner.Cursor(), out, packed.Tokens, r.in, counts, packed)
	}
	return true
}

// account counts the tokens of a document, unless it is skipped, a duplicate of a recent one, or used up by an earlier run.
func (m *machine) account(r *reference, d loader.Document) {
	n := r.header.Config.Documents.Dedupe
	if d.Skip != "" {
		d.ID = 0
	}
	duplicate := n > 0 && d.ID != 0 && slices.Contains(r.window, d.ID)
	r.window = append(r.window, d.ID)
	r.window = r.window[max(0, len(r.window)-n):]
	if d.Skip != "" || duplicate {
		return
	}
	left := len(d.Tokens)
	switch p := r.header.Parent; {
	case p == nil || d.Sequence > p.Cursor:
	case d.Sequence < p.Floor:
		left = 0
	default:
		for _, n := range m.past.seen[d.Sequence] {
			if n > 0 {
				left--
			}
		}
	}
	if left > 0 {
		r.used[d.Sequence] = true
	}
	r.in += int64(left)
}

// possible returns how many steps the run can have with the documents that there are, and whether it ends then.
func (m *machine) possible(rt *rapid.T) (steps uint64, ended bool) {
	m.follow(rt)
	p, err := m.ref.header.NewPlanner()
	if err != nil {
		rt.Fatal(err)
	}
	if err := p.RestoreState(m.ref.planner.AppendState(nil)); err != nil {
		rt.Fatal(err)
	}
	tellHints(p)
	r := *m.ref
	r.planner, r.used = p, map[uint64]bool{}
	r.window, r.steps = slices.Clone(r.window), slices.Clone(r.steps)
	for m.advance(rt, &r) {
	}
	return uint64(len(r.steps)), r.sealed
}

// sealed reports whether the end of the run is recorded.
func (m *machine) sealed(rt *rapid.T) bool {
	m.follow(rt)
	return slices.ContainsFunc(m.ref.known, func(c plan.Control) bool { _, seal := c.(plan.Seal); return seal })
}

// recorded checks that a control is in the log as it was answered.
func (m *machine) recorded(rt *rapid.T, kind string, at uint64) {
	m.follow(rt)
	want := map[string]plan.Control{"seal": plan.Seal{At: at}, "drain": plan.Drain{At: at}}[kind]
	if !slices.Contains(m.ref.known, want) {
		rt.Fatalf("%s behind document %d is not among %+v", kind, at, m.ref.known)
	}
}

// history is what runs have used of the documents.
type history struct {
	seen  map[uint64][]int // how often each token came
	used  map[uint64]bool
	loses bool // a run dropped or repeated tokens on purpose
}

// add adds the first steps of a run.
func (h *history) add(rt *rapid.T, r *reference, steps int) {
	counts, packed := r.planner.Counts()
	h.loses = h.loses || counts.LeftTokens > 0 || packed.Dropped > 0 || packed.Repeated > 0
	for doc := range r.used {
		h.used[doc] = true
	}
	for _, s := range r.steps[:steps] {
		for _, row := range s.Rows {
			for _, x := range row {
				if !r.used[x.Doc] {
					rt.Fatalf("step %d holds document %d, which is not used", s.Index, x.Doc)
				}
				for k := x.Start; k < x.Start+x.Length; k++ {
					for int(k) >= len(h.seen[x.Doc]) {
						h.seen[x.Doc] = append(h.seen[x.Doc], 0)
					}
					h.seen[x.Doc][k]++
				}
			}
		}
	}
}

func (h *history) clone() history {
	c := *h
	c.seen, c.used = map[uint64][]int{}, map[uint64]bool{}
	for doc, tokens := range h.seen {
		c.seen[doc] = slices.Clone(tokens)
	}
	for doc := range h.used {
		c.used[doc] = true
	}
	return c
}

// check compares the run with the reference, and checks that every token of the documents below the floor came once, and that no
// document is purged that a reader may ask for.
func (m *machine) check(rt *rapid.T) {
	m.follow(rt)
	if m.ref == nil {
		return
	}
	info := m.run.Info()
	planned := min(int(info.Planned), len(m.ref.steps))
	now := m.past.clone()
	now.add(rt, m.ref, planned)
	for doc, tokens := range now.seen {
		if len(tokens) > len(m.docs.docs[doc-1].Tokens) {
			rt.Fatalf("document %d has no token %d", doc, len(tokens)-1)
		}
		if !now.loses && slices.Max(tokens) > 1 {
			rt.Fatalf("of document %d there have come %v", doc, tokens)
		}
	}
	floor := m.ref.floor(planned)
	for doc := range now.used {
		if tokens := now.seen[doc]; doc < floor && !now.loses && (len(tokens) < len(m.docs.docs[doc-1].Tokens) || slices.Contains(tokens, 0)) {
			rt.Fatalf("the floor is %d, of document %d there have come %v", floor, doc, tokens)
		}
	}
	if info.Oldest > m.most {
		rt.Fatalf("step %d is the oldest, committed were %d", info.Oldest, m.most)
	}
	if m.ignorant() { // it learns what is released when it learns that it leads no more
		return
	}
	for tries := 0; ; tries++ { // a daemon that does not lead hears of it a moment later
		why := m.unreadable()
		if why == "" {
			break
		}
		if m.company == nil || tries == 100 {
			rt.Fatal(why)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if info := m.run.Info(); info.Oldest > 0 {
		if _, err := m.run.Join(loader.Place{World: 1}, info.Oldest-1); reason(err) != loader.StepReleased {
			rt.Fatalf("join before the oldest step, %d: %v", info.Oldest, err)
		}
	}
}

// unreadable names a step that can be read by what the process says, and whose documents are purged.
func (m *machine) unreadable() string {
	first, oldest := m.first(), m.run.Info().Oldest
	for _, s := range m.ref.steps[min(oldest, uint64(len(m.ref.steps))):] {
		for _, row := range s.Rows {
			for _, x := range row {
				if x.Doc < first {
					return fmt.Sprintf("step %d needs document %d, the first one left is %d; steps from %d on can be read", s.Index, x.Doc, first, oldest)
				}
			}
		}
	}
	return ""
}

// audit plans everything again, from what the stream once held.
func (m *machine) audit(rt *rapid.T) {
	m.follow(rt)
	if m.ref == nil {
		return
	}
	planned := m.run.Info().Planned
	ctx, cancel := context.WithTimeout(m.t.Context(), 2*time.Second)
	defer cancel()
	if seen, err := loader.Audit(ctx, loader.Edges{Documents: allDocs{m.docs}, Plan: m.world.plan}, m.world.config.Tokenizer, nil); err != nil || seen.Steps < planned {
		rt.Fatalf("audit of %d of %d steps: %v", seen.Steps, planned, err)
	}
}
