package loader_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"pgregory.net/rapid"

	"loaderd/internal/api"
	"loaderd/internal/status"
	"loaderd/internal/statustest"
	"loaderd/loader"
	"loaderd/loader/backend"
	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/maintenance"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
	"loaderd/packonline"
)

// strictDocs does not deliver purged documents, not even to sources opened before the purge.
type strictDocs struct{ *memDocs }

type strictSource struct {
	blockingSource
	docs *memDocs
}

func (d strictDocs) Read(ctx context.Context, from uint64) (document.Source, error) {
	s, err := d.memDocs.open(from)
	if err != nil {
		return nil, err
	}
	return queued(strictSource{s, d.memDocs}), nil
}

func (s strictSource) Next(ctx context.Context) ([]document.Document, error) {
	docs, err := s.blockingSource.Next(ctx)
	if err == nil && docs[0].Sequence < s.docs.state().First {
		return nil, errPurged
	}
	return docs, err
}

// allDocs is the stream including purged documents.
type allDocs struct{ *memDocs }

func (d allDocs) Read(_ context.Context, from uint64) (document.Source, error) {
	return queued(newSource(d.memDocs, from)), nil
}

// runLowWatermarks is one run's entry among the low watermarks of all runs that read the documents.
type runLowWatermarks struct {
	docs *memDocs
	all  map[string]runLowWatermark
	run  string
}

// runLowWatermark is a run's low watermark, and the term that set it.
type runLowWatermark struct{ from, term uint64 }

// change changes the low watermark for a term, unless a later term has set it.
func (f runLowWatermarks) change(term uint64, change func(was uint64) uint64) (uint64, error) {
	f.docs.mu.Lock()
	defer f.docs.mu.Unlock()
	was := f.all[f.run]
	if term < was.term {
		return 0, fmt.Errorf("%w: term %d follows term %d", fault.ErrLeadershipLost, was.term, term)
	}
	f.all[f.run] = runLowWatermark{change(was.from), term}
	return f.all[f.run].from, nil
}

func (f runLowWatermarks) Register(ctx context.Context, from uint64) (uint64, error) {
	return f.Claim(ctx, 0, from)
}

func (f runLowWatermarks) Claim(_ context.Context, term, from uint64) (uint64, error) {
	return f.change(term, func(uint64) uint64 { return max(from, f.docs.first) })
}

func (f runLowWatermarks) NotifyProducers(context.Context) error { return nil }

func (f runLowWatermarks) ReportIntake(context.Context, backend.Intake) error { return nil }

func (f runLowWatermarks) RecordEnd(_ context.Context, term, _ uint64) error {
	_, err := f.change(term, func(was uint64) uint64 { return was })
	return err
}

func (f runLowWatermarks) Advance(_ context.Context, term, from uint64) (uint64, error) {
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

// reference is an undisturbed planner, with a simple account of its input.
type reference struct {
	header   planrecord.Header
	applier  *planner.Applier
	steps    []plan.Step
	read     int                  // records read from the plan log
	known    []planrecord.Control // all recorded controls
	took     map[int]uint64       // step before which each control took effect
	waits    []int                // controls that have not taken effect, in order
	windows  []window             // by source
	first    uint64               // first arrival that the run needs at its beginning
	in       int64                // tokens of used documents
	used     map[member]int       // uses of each document
	filters  map[string]string    // at its beginning, by source; "" for that of all documents
	arrivals [][]member           // used documents of each message, in order of arrival
	before   [][]window           // windows after each message
}

// member is a document of a message; most messages have one.
type member struct {
	ref   uint64
	index int
}

// members returns the documents of a message, and the offset of each in its tokens.
func (m *machine) members(ref uint64) (parts []plan.Part, starts []int) {
	first := 0
	for _, x := range m.document(ref).Documents() {
		parts, starts = append(parts, x), append(starts, first)
		first += x.Length
	}
	return parts, starts
}

// member returns the document that holds the first token of a span.
func (m *machine) member(x packonline.Piece) member {
	parts, starts := m.members(x.Doc)
	for i := range parts {
		if int(x.Start) < starts[i]+parts[i].Length {
			return member{x.Doc, i}
		}
	}
	return member{x.Doc, -1}
}

// window is the dedupe window of a source.
type window struct {
	epoch uint64
	ids   [][2]uint64 // ids of the latest documents, with the part number of each
}

// lowWatermark returns the first document that step or a later one may need.
func (r *reference) lowWatermark(step int) uint64 {
	if step > 0 {
		return r.steps[step-1].LowWatermark.Next()
	}
	return r.first
}

// records returns the records of the plan.
func (m *machine) records() [][]byte {
	m.fixture.plan.mu.Lock()
	defer m.fixture.plan.mu.Unlock()
	return slices.Clone(m.fixture.plan.records)
}

// follow makes the run's steps with the reference, and compares them.
func (m *machine) follow(rt *rapid.T) {
	planned := int(m.run.Info().Planned)
	records := m.records()
	if len(records) == 0 {
		return
	}
	if m.ref == nil {
		m.begins(rt, records)
	}
	r := m.ref
	for _, b := range records[r.read:] {
		r.record(rt, b)
	}
	compared := len(r.steps)
	for len(r.steps) < planned {
		if !m.advance(rt, r) {
			rt.Fatalf("the run has planned %d steps, there are %d: behind document %d, ended %v, controls %+v",
				planned, len(r.steps), r.applier.Planner.Clock(), r.applier.Ended, r.known)
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

// record receives a record of the plan.
func (r *reference) record(rt *rapid.T, b []byte) {
	e, err := planrecord.Decode(b)
	if err != nil {
		rt.Fatal(err)
	}
	if c, ok := e.(planrecord.Control); ok {
		before := len(r.applier.Pending)
		r.applier.Record(c)
		if len(r.applier.Pending) > before {
			r.waits = append(slices.Clip(r.waits), len(r.known))
		}
		r.known = append(r.known, c)
		slices.SortStableFunc(r.waits, func(a, b int) int {
			return cmp.Compare(r.known[a].EffectiveAfter(), r.known[b].EffectiveAfter())
		})
	}
	r.read++
}

// share replaces the reference by one with the steps and controls before a step, which a fork at that step shares. A
// later control may take effect before documents of the fork: those up to a flush that is recorded before the step.
func (m *machine) share(rt *rapid.T, step int) {
	records := m.records()
	m.begins(rt, records)
	for _, b := range records {
		e, err := planrecord.Decode(b)
		if err != nil {
			rt.Fatal(err)
		}
		if p, ok := e.(planrecord.StepPart); ok && p.Index >= uint64(step) {
			break
		}
		m.ref.record(rt, b)
	}
	for len(m.ref.steps) < step {
		if !m.advance(rt, m.ref) {
			rt.Fatalf("there are %d steps before the fork at step %d", len(m.ref.steps), step)
		}
	}
}

// begins creates the reference of a run with the given records at its beginning.
func (m *machine) begins(rt *rapid.T, records [][]byte) {
	var h planrecord.Header
	for _, b := range records {
		e, err := planrecord.Decode(b)
		if err != nil {
			rt.Fatal(err)
		}
		switch e := e.(type) {
		case planrecord.Header:
			h = e
		case planrecord.ForkState:
			h.State = append(h.State, e.State...)
		}
	}
	a, err := planner.NewApplier(h)
	if err != nil {
		rt.Fatal(err)
	}
	m.ref = &reference{header: h, applier: a, used: maps.Clone(m.past.used), took: map[int]uint64{},
		first: a.Planner.LowWatermark().Next(), in: a.UsedTokens}
	m.ref.filters = map[string]string{}
	for _, name := range append([]string{""}, sourcesOfModel...) {
		if where, err := a.Planner.Filters.Expression(name); err == nil {
			m.ref.filters[name] = where
		}
	}
	if h.Parent == nil {
		return
	}
	tellHints(a.Planner, func(ref uint64) []plan.Part { return m.document(ref).Documents() })
	taken := a.Planner.Clock()
	m.ref.arrivals, m.ref.before = slices.Clip(m.parent.arrivals[:taken]), slices.Clip(m.parent.before[:taken])
	if taken > 0 {
		m.ref.windows = slices.Clone(m.ref.before[taken-1])
	}
}

// advance applies due controls, or adds a document. It returns false when neither is available.
func (m *machine) advance(rt *rapid.T, r *reference) bool {
	p := r.applier.Planner
	acted := false
	if err := r.applier.ApplyPending(func(ready planner.Ready) error {
		acted = true
		if len(r.waits) > len(r.applier.Pending) { // without a control if all sources were empty at first
			r.took[r.waits[0]] = p.Next() - uint64(len(ready.Steps))
			r.waits = r.waits[1:]
		}
		r.steps = append(r.steps, ready.Steps...)
		return nil
	}); err != nil {
		rt.Fatal(err)
	}
	source, sequence, wanted := p.NextDocument()
	switch {
	case acted:
	case r.applier.Ended || !wanted || sequence > m.source(source).state().Last:
		return false
	default:
		d := m.document(plan.Ref(source, sequence))
		m.account(r, source, d)
		ready, err := r.applier.AddDocument(plan.Arrival{Source: source, Sequence: sequence, ID: d.ID, Length: len(d.Tokens),
			Skip: d.Skip, Loss: d.Loss, PackingHints: plan.PackingHints{Hint: d.Hint}, Parts: d.Parts})
		if err != nil {
			rt.Fatal(err)
		}
		r.steps = append(r.steps, ready.Steps...)
	}
	counts, packed := p.Counts()
	if out := counts.Tokens - packed.Repeated + packed.Dropped + counts.LeftTokens + p.BufferedTokens(); out != r.in ||
		r.header.Parent == nil && packed.Tokens != r.in {
		rt.Fatalf("behind document %d %d tokens are accounted for and the packer had %d, want %d: %+v, %+v", p.Clock(), out,
			packed.Tokens, r.in, counts, packed)
	}
	return true
}

// account counts the tokens of the next message, without documents that are skipped, duplicates in the window, or
// filtered out by their source.
func (m *machine) account(r *reference, source int, d document.Document) {
	ref := plan.Ref(source, d.Sequence)
	parts, _ := m.members(ref)
	var comes []member
	for i, x := range parts {
		id := [2]uint64{x.ID, uint64(x.SplitIndex)}
		skipped := x.Skip != "" || m.leaves(r, source, d.Sequence, i, x)
		if skipped {
			id[0] = 0
		}
		if m.observe(r, source, id) || skipped {
			continue
		}
		comes = append(comes, member{ref, i})
		r.used[member{ref, i}]++
		r.in += int64(x.Length)
	}
	r.arrivals, r.before = append(r.arrivals, comes), append(r.before, slices.Clone(r.windows))
}

// observe reports whether an id is that of a document in the window of its source in this epoch.
func (m *machine) observe(r *reference, source int, id [2]uint64) bool {
	for len(r.windows) <= source {
		r.windows = append(r.windows, window{})
	}
	w, n := &r.windows[source], r.header.Config.Documents.Dedupe
	if mix := r.applier.Planner.Mixture(); mix.Position(source).Epoch != w.epoch {
		*w = window{epoch: mix.Position(source).Epoch}
	}
	duplicate := n > 0 && id[0] != 0 && slices.Contains(w.ids, id)
	w.ids = append(slices.Clip(w.ids), id)
	w.ids = w.ids[max(0, len(w.ids)-n):]
	return duplicate
}

// possible returns how many steps the run can have with the available documents, and whether it ends then. For a run
// that reads a source forever, it returns some more steps than are planned.
func (m *machine) possible(rt *rapid.T) (steps uint64, ended bool) {
	m.follow(rt)
	a, err := planner.NewApplier(m.ref.header)
	if err != nil {
		rt.Fatal(err)
	}
	if err := a.Planner.RestoreState(m.ref.applier.Planner.AppendState(nil)); err != nil {
		rt.Fatal(err)
	}
	tellHints(a.Planner, func(ref uint64) []plan.Part { return m.document(ref).Documents() })
	a.Pending, a.Ended = slices.Clone(m.ref.applier.Pending), m.ref.applier.Ended
	r := *m.ref
	r.applier, r.used = a, map[member]int{}
	r.windows, r.steps, r.took, r.arrivals, r.before = slices.Clone(r.windows), slices.Clone(r.steps), maps.Clone(r.took),
		slices.Clone(r.arrivals), slices.Clone(r.before)
	for len(r.steps) < len(m.ref.steps)+50 && m.advance(rt, &r) {
	}
	return uint64(len(r.steps)), r.applier.Ended
}

// sealed reports whether the end of the run is recorded, or follows from the records.
func (m *machine) sealed(rt *rapid.T) bool {
	m.follow(rt)
	if _, ended := m.possible(rt); ended {
		return true
	}
	return !slices.Contains(slices.Collect(maps.Values(m.present())), false)
}

// recorded checks that the log holds a control as its response stated.
func (m *machine) recorded(rt *rapid.T, kind string, at uint64) {
	m.follow(rt)
	if kind == "seal" {
		m.allSealed(rt)
	} else if !slices.Contains(m.ref.known, planrecord.Control(planrecord.Flush{Arrival: at})) {
		rt.Fatalf("%s behind arrival %d is not among %+v", kind, at, m.ref.known)
	}
}

// history is the documents that runs have used.
type history struct {
	seen  map[uint64][]int // uses of each token of a message
	had   map[uint64][]int // uses of each token with a loss
	used  map[member]int   // uses of each document
	loses bool             // a run dropped or repeated tokens as configured
}

// add adds the first steps of a run.
func (h *history) add(rt *rapid.T, m *machine, steps int) {
	r := m.ref
	counts, packed := r.applier.Planner.Counts()
	h.loses = h.loses || counts.LeftTokens > 0 || packed.Dropped > 0 || packed.Repeated > 0
	for doc, n := range r.used {
		h.used[doc] = max(h.used[doc], n)
	}
	for _, s := range r.steps[:steps] {
		repeats := map[[2]int]int32{}
		for _, x := range s.Repeats {
			repeats[[2]int{x.Row, x.Piece}] = x.Tokens
		}
		for i, row := range s.Rows {
			for at, x := range row {
				if d := m.member(x); r.used[d] == 0 {
					rt.Fatalf("step %d holds document %v, which is not used", s.Index, d)
				}
				for k := x.Start; k < x.Start+x.Length; k++ {
					for int(k) >= len(h.seen[x.Doc]) {
						h.seen[x.Doc], h.had[x.Doc] = append(h.seen[x.Doc], 0), append(h.had[x.Doc], 0)
					}
					h.seen[x.Doc][k]++
					if k >= x.Start+repeats[[2]int{i, at}] {
						h.had[x.Doc][k]++
					}
				}
			}
		}
	}
}

func (h *history) clone() history {
	c := *h
	c.seen, c.had, c.used = map[uint64][]int{}, map[uint64][]int{}, maps.Clone(h.used)
	for doc, tokens := range h.seen {
		c.seen[doc], c.had[doc] = slices.Clone(tokens), slices.Clone(h.had[doc])
	}
	return c
}

// check compares the run with the reference. It checks that every token of the documents below the low watermark was
// used once, and that no document is purged that a reader may request.
func (m *machine) check(rt *rapid.T) {
	m.follow(rt)
	if m.ref == nil {
		return
	}
	info := m.run.Info()
	planned := min(int(info.Planned), len(m.ref.steps))
	now := m.past.clone()
	now.add(rt, m, planned)
	for doc, tokens := range now.seen {
		if len(tokens) > len(m.document(doc).Tokens) {
			rt.Fatalf("document %x has no token %d", doc, len(tokens)-1)
		}
		for i, some := range m.each(doc, tokens) {
			if used := now.used[member{doc, i}]; !now.loses && len(some) > 0 && slices.Max(some) > used {
				rt.Fatalf("of document %d of %x, which is used %d times, these have arrived: %v", i, doc, used, some)
			}
		}
	}
	lowWatermark := m.ref.lowWatermark(planned)
	for doc, n := range m.done(lowWatermark) {
		parts, _ := m.members(doc.ref)
		if tokens := m.each(doc.ref, now.seen[doc.ref])[doc.index]; !now.loses &&
			(len(tokens) < parts[doc.index].Length || slices.Min(tokens) < n) {
			rt.Fatalf("the low watermark is %d, of document %v, which occurred %d times before, these have arrived: %v",
				lowWatermark, doc, n, tokens)
		}
	}
	m.answered(rt)
	shown := status.New(status.Options{Run: m.run, LocalStreams: func() []api.RankStatus {
		return nil
	}, Events: status.NewEvents("a"), Name: "a", Flight: func() string { return "" },
		Bounds: status.Bounds{Window: m.fixture.config.Shuffle.Window, Ahead: m.fixture.options.Ahead}}).Status()
	for _, wrong := range append(contradictions(m.run.Stats()), statustest.Contradictions(&shown)...) {
		rt.Fatal(wrong)
	}
	if info.Oldest > m.most {
		rt.Fatalf("step %d is the oldest, committed were %d", info.Oldest, m.most)
	}
	if m.ignorant() { // learns of purges once it notices the lost lease
		return
	}
	for tries := 0; ; tries++ { // a purge is announced shortly after it
		why := m.unreadable()
		if why == "" {
			break
		}
		if tries == 100 && m.lost() { // a leader was killed between purge and announcement; the next leader detects it
			return
		}
		if tries == 100 {
			rt.Fatal(why)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if info := m.run.Info(); info.Oldest > 0 {
		if _, err := m.run.Join(state.RankID{World: 1}, info.Oldest-1); reason(err) != fault.StepPurged {
			rt.Fatalf("join before the oldest step, %d: %v", info.Oldest, err)
		}
	}
}

// contradictions lists the figures of a run that exceed their total, for figures that no status has.
func contradictions(s loader.Stats) (wrong []string) {
	within := func(name string, value, of int64) {
		if value < 0 || value > of {
			wrong = append(wrong, fmt.Sprintf("%s: %d of %d", name, value, of))
		}
	}
	within("rows there", int64(s.RowsReady), int64(s.RowsNeeded))
	within("padding", s.Padding, s.Slots)
	within("masked tokens", s.MaskedTokens, s.Slots-s.Padding)
	within("delivered", int64(s.Source.Delivered), int64(s.Source.Fetched))
	return wrong
}

// each splits values of the first tokens of a message by its documents.
func (m *machine) each(ref uint64, tokens []int) (out [][]int) {
	parts, starts := m.members(ref)
	for i, x := range parts {
		out = append(out, tokens[min(starts[i], len(tokens)):min(starts[i]+x.Length, len(tokens))])
	}
	return out
}

// unreadable names a step that the process reports as readable although its documents are purged.
func (m *machine) unreadable() string {
	oldest := m.run.Info().Oldest
	for _, s := range m.ref.steps[min(oldest, uint64(len(m.ref.steps))):] {
		for _, row := range s.Rows {
			for _, x := range row {
				if first := m.source(plan.RefSource(x.Doc)).state().First; plan.RefSequence(x.Doc) < first {
					return fmt.Sprintf("step %d needs document %x, the first one left is %d; steps from %d on can be read", s.Index,
						x.Doc, first, oldest)
				}
			}
		}
	}
	return ""
}

// audit audits the plan, with purged documents included.
func (m *machine) audit(rt *rapid.T) {
	m.follow(rt)
	if m.ref == nil {
		return
	}
	planned := m.run.Info().Planned
	ctx, cancel := context.WithTimeout(m.t.Context(), time.Minute)
	defer cancel()
	e := backend.Backends{Sources: allShelf(m.docs), Plan: m.fixture.plan}
	if seen, err := maintenance.Audit(ctx, e, m.fixture.config.Tokenizer, nil); err != nil || seen.Steps < planned {
		rt.Fatalf("audit of %d of %d steps: %v", seen.Steps, planned, err)
	}
}
