package webui_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"loaderd/internal/api"
	"loaderd/internal/auth"
	"loaderd/internal/humanize"
	"loaderd/loader/diagnosis"
	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/state"
)

// fake responds like a daemon, with the synthetic status of a run that advances with every request.
type fake struct {
	mu     sync.Mutex
	asked  map[string]int    // number of requests per action
	bodies map[string]string // last body per action
	fail   error             // the result of all requests, if not nil
	change func(*api.Status)
	past   api.History
	codes  []string // codes of links, each valid once, for the token "operate"
	open   bool     // no token is required; else "read" and "operate" are tokens
}

func newFake() *fake {
	return &fake{asked: map[string]int{}, bodies: map[string]string{}, past: madeUpHistory(), open: true}
}

// set changes later responses.
func (f *fake) set(change func(*fake)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

// took returns how often an action was requested, and its last body.
func (f *fake) took(action string) (int, string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[action], f.bodies[action]
}

// allowed are the actions of a role.
var allowed = map[auth.Role][]string{
	auth.Read: {"status", "history"},
	auth.Operate: {"status", "history", "ledger", "find", "text", "peek", "flush", "seal", "mix", "filter", "schedule",
		"checkpoint", "measure"},
}

// role returns the role of a caller, none for an unauthenticated one.
func (f *fake) role(from auth.Caller) auth.Role {
	if f.open {
		return auth.Operate
	}
	role := auth.Role(strings.TrimPrefix(strings.Join(from.Authorization, ""), "Bearer "))
	if allowed[role] == nil {
		return ""
	}
	return role
}

func (f *fake) Identify(_ context.Context, from auth.Caller, _ string) (auth.Identity, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.role(from) == "" {
		return auth.Identity{}, &fault.Error{Reason: fault.InvalidToken, Message: "the call has no bearer token",
			Advice: "send one"}
	}
	return auth.Identity{Name: "somebody"}, nil
}

func (f *fake) LogIn(_ context.Context, _ auth.Caller, code string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := slices.Index(f.codes, code)
	if at < 0 {
		return "", &fault.Error{Reason: fault.InvalidToken, Message: "the link of the page was already used",
			Advice: "create another one"}
	}
	f.codes = slices.Delete(f.codes, at, at+1)
	return "operate", nil
}

func (f *fake) DoAction(_ context.Context, from auth.Caller, action string, body []byte) ([]json.RawMessage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked[action]++
	f.bodies[action] = string(body)
	role := f.role(from)
	switch {
	case f.fail != nil:
		return nil, f.fail
	case role == "":
		return nil, &fault.Error{Reason: fault.InvalidToken, Message: "the call has no bearer token", Advice: "send one"}
	case !slices.Contains(allowed[role], action):
		return nil, &fault.Error{Reason: fault.Forbidden, Message: fmt.Sprintf("action %s needs the role operate", action),
			Advice: "use a token with this permission"}
	}
	switch action {
	case "status":
		s := madeUp(uint64(f.asked["status"]))
		s.AllowedActions = allowed[role]
		if f.change != nil {
			f.change(&s)
		}
		return results(s), nil
	case "history":
		return results(f.past), nil
	case "ledger":
		return ledgerPages(body)
	case "find":
		return found(body), nil
	case "text":
		return results(textOf(body)), nil
	case "checkpoint":
		return results(api.CheckpointResponse{Run: "demo", Step: 7230}), nil
	case "mix":
		return results(api.MixResponse{Run: "demo", Step: 7300}), nil
	case "filter":
		return results(api.FilterResponse{Run: "demo", Step: 7310, Where: "tokens >= 64",
			Sources: map[string]string{"math": "meta.quality > 0.5"}}), nil
	case "schedule":
		return results(api.ScheduleResponse{Run: "demo", Step: 7320}), nil
	case "measure":
		return results(api.MeasureResponse{Run: "demo"}), nil
	}
	return results(api.RecordResponse{Run: "demo", Sequence: 99_120}), nil
}

func results(documents ...any) (out []json.RawMessage) {
	for _, d := range documents {
		b, err := json.Marshal(d)
		if err != nil {
			panic(err)
		}
		out = append(out, b)
	}
	return out
}

// madeUp returns the n-th status of a run with two sources and four ranks. One rank delays the other ranks.
func madeUp(n uint64) api.Status {
	now := time.Now().UTC().Truncate(time.Millisecond)
	steps := 7231 + n
	dry := now.Add(-190 * time.Second)
	wave := 1 + 0.05*math.Sin(float64(n)/5)
	remaining, fills := float64(21_400-steps)/9.2, 2400.0
	return api.Status{
		Run: "demo", ID: "9f2c41d07ab3e5586610", Fingerprint: "sha256:ab", Time: now, Daemon: "gpu-01.4711",
		Version: "0.20.0",
		Verdict: diagnosis.Verdict{Health: diagnosis.Waiting, Sentence: "Rank 3 of 4 holds the others (40 steps behind)",
			Reason: fault.RankBehind,
			Detail: humanize.Count(int64(steps+64)) + " steps are planned, 64 of them beyond what rank 3 has asked for.",
			Advice: "look at rank 3 of job train at 10.0.0.13; planning continues when it requests further steps",
			Facts:  map[string]string{"rank": "3", "world": "4"}},
		Planned: steps + 64, Sent: &steps, Consumed: &steps, Committed: 7100, Oldest: 6800,
		Length: &state.Length{Steps: 21_400, Error: 120, OpenSources: []string{"web"}}, EndsIn: &remaining,
		Rates: api.Rates{Rates: state.Rates{Published: 1520, Documents: 1490 * wave, TokensIn: 1.31e6, Tokens: 1.24e6 * wave,
			Rows: 610, Steps: 9.6, StepsRead: 9.2, Undecodable: 0.2}, Bytes: 21e6},
		Flow: []api.Stage{
			{Name: api.StagePublished, Value: 812_400, Limit: 990_000, Unit: "documents", Rate: 1490 * wave,
				RateUnit: "documents"},
			{Name: api.StageTokenized, Value: 61 << 20, Limit: 64 << 20, Unit: "bytes", Rate: 1.31e6, RateUnit: "tokens"},
			{Name: api.StagePool, Value: 4000, Limit: 4096, Unit: "pieces", Rate: 640, RateUnit: "rows"},
			{Name: api.StageWindow, Value: 1020, Limit: 1024, Unit: "atoms", Rate: 640, RateUnit: "rows"},
			{Name: api.StageQueues, Value: 88, Limit: 320, Unit: "rows", Rate: 9.6, RateUnit: "steps"},
			{Name: api.StageAhead, Value: 64, Limit: 64, Unit: "steps", Rate: 9.6, RateUnit: "steps"},
			{Name: api.StageRead, Value: float64(steps), Limit: float64(steps + 64), Unit: "steps", Rate: 9.2, RateUnit: "steps",
				Bottleneck: true},
			{Name: api.StageCommitted, Value: 7100, Limit: float64(steps + 64), Unit: "steps", Rate: 9.1, RateUnit: "steps"},
		},
		Streams: []state.StreamFill{{Source: "web", Name: "DOCS_web", Bytes: 900 << 20, MaxBytes: 1 << 30,
			FullInSeconds: &fills},
			{Source: "math", Name: "DOCS_math"}},
		Sources: []api.SourceStatus{
			{Name: "web", Target: 0.7, Share: new(0.702), Recent: new(0.712), Tokens: 5.2e9, Emitted: 5.1e9, Epochs: "1",
				Documents: 600_000, Stored: 760_000, Next: 600_001, Undecodable: 12, LeftOut: 20},
			{Name: "math", Target: 0.3, Share: new(0.298), Recent: new(0.288), Tokens: 2.2e9, Emitted: 2.1e9, Epoch: 1,
				Epochs: "4", Documents: 212_400, Stored: 230_000, Next: 212_401, DrySince: &dry, Sealed: true},
		},
		StepSizes: api.StepSizes{Buckets: []api.BucketStatus{{Bucket: 1024, Steps: 3100, Rows: 12, RowsPerStep: 64},
			{Bucket: 2048, Steps: 2900, Rows: 60, RowsPerStep: 64}, {Bucket: 4096, Steps: 1231, Rows: 16, RowsPerStep: 64}}},
		Packing: api.PackingStatus{Method: "bfd", Padding: 0.0031, Split: 0.127, AgeMax: 8100, WaitMax: 4000},
		Ranks: []api.RankStatus{
			{Job: "train", Rank: 0, World: 4, State: api.StateReading, Unit: api.UnitRead, Consumed: steps + 40,
				Sent: steps + 40, WaitP50: 0.0004, WaitP99: 0.9, Bytes: 5.6e6, Since: now.Add(-4 * time.Hour), Identity: "trainer",
				Address: "10.0.0.10:5012", Daemon: "gpu-01.4711"},
			{Job: "train", Rank: 1, World: 4, State: api.StateReading, Unit: api.UnitRead, Consumed: steps + 40,
				Sent: steps + 40, WaitP50: 0.0004, WaitP99: 1.1, Bytes: 5.6e6, Since: now.Add(-4 * time.Hour), Identity: "trainer",
				Address: "10.0.0.11:5013", Daemon: "gpu-01.4711"},
			{Job: "train", Rank: 2, World: 4, State: api.StateReading, Unit: api.UnitRead, Consumed: steps + 39,
				Sent: steps + 39, Lag: 1, WaitP50: 0.0005, WaitP99: 1.0, Bytes: 5.5e6, Since: now.Add(-4 * time.Hour),
				Identity: "trainer", Address: "10.0.0.12:5014", Daemon: "gpu-02.812"},
			{Job: "train", Rank: 3, World: 4, State: api.StateReading, Unit: api.UnitRead, Consumed: steps, Sent: steps, Lag: 40,
				WaitP50: 0.0001, WaitP99: 0.0002, Bytes: 4.1e6, Since: now.Add(-31 * time.Minute), Identity: "trainer",
				Address: "10.0.0.13:5015", Daemon: "gpu-02.812"},
		},
		RankCount: 4,
		JobDetails: api.JobDetails{Jobs: []api.JobStatus{{Job: "train", World: 4, Present: 4, MinConsumed: steps,
			MaxConsumed: steps + 40, Sent: steps, ReportsConsumption: true, State: api.StateReading}}},
		Commits: []api.JobCommit{{Job: "train", Step: 7100}, {Job: "train/eval", Step: 7180}},
		Daemons: []api.DaemonStatus{
			{Name: "gpu-01.4711", Flight: "grpc://gpu-01:8815", HTTP: "http://gpu-01:9815/", Version: "0.20.0", IsLeader: true,
				Term: 3, Ranks: 2, Bytes: 11.2e6, SilentSeconds: 0},
			{Name: "gpu-02.812", Flight: "grpc://gpu-02:8815", HTTP: "http://gpu-02:9815/", Version: "0.20.0", Ranks: 2,
				Bytes: 9.6e6, SilentSeconds: 0.4},
			{Name: "gpu-03.90", Flight: "grpc://gpu-03:8815", HTTP: "javascript:alert(1)", Version: "0.19.2", SilentSeconds: 12},
		},
		UnusedDocuments: api.UnusedDocuments{Skipped: []api.SkippedStatus{
			{Reason: "undecodable", Documents: 15, Text: "undecodable", Do: "see the dead letters"},
			{Reason: "masked", Documents: 1200, Text: "without a token that has a loss",
				Do: "mark what is to be trained on <script>alert(1)</script>"}}},
		Dead: api.DeadStatus{Total: 15, Waiting: 1, Reasons: []api.DeadReason{
			{Reason: "not UTF-8", Letters: 12, Samples: []api.DeadSample{
				{Letter: 15, Source: "web", Sequence: 599_870, Subject: "docs.web",
					Problem: "byte 0xff at offset 2,114 is no UTF-8", Time: now.Add(-40 * time.Second)},
				{Letter: 13, Source: "web", Sequence: 598_001, Subject: "docs.web", Problem: "byte 0xc3 at offset 9 is no UTF-8",
					Time: now.Add(-9 * time.Minute)}}},
			{Reason: "token out of range", Letters: 3, Samples: []api.DeadSample{
				{Letter: 14, Source: "math", Sequence: 211_411, Subject: "docs.math",
					Problem: "token 60,000 at 17: the vocabulary has 50,257 <script>alert(1)</script>",
					Time:    now.Add(-3 * time.Minute)}}},
		}},
		Events:         madeUpEvents(now.Truncate(time.Hour)),
		AllowedActions: []string{},
	}
}

func madeUpEvents(now time.Time) []api.Event {
	out := []api.Event{
		{Time: now.Add(-3 * time.Minute), Kind: "warning", Text: "source math has had nothing new for 10 s",
			Do: "look at the producer of math, or seal the source", Daemon: "gpu-01.4711"},
		{Time: now.Add(-12 * time.Minute), Kind: "weights", Text: "web 0.7, math 0.3, by operator", Daemon: "gpu-01.4711"},
		{Time: now.Add(-31 * time.Minute), Kind: "reader", Text: "rank 3 of 4 of job train came from 10.0.0.13",
			Daemon: "gpu-02.812"},
		{Time: now.Add(-32 * time.Minute), Kind: "error", Text: "rank 3 of 4 of job train was lost: connection reset",
			Do: "look at that machine", Daemon: "gpu-02.812"},
		{Time: now.Add(-50 * time.Minute), Kind: "leader", Text: "gpu-01.4711 leads, term 3", Daemon: "gpu-01.4711"},
	}
	for i := range 12 {
		out = append(out, api.Event{Time: now.Add(-time.Duration(60+i) * time.Minute), Kind: "reader",
			Text: fmt.Sprintf("rank %d of 4 of job train came", i%4), Daemon: "gpu-01.4711"})
	}
	return out
}

// madeUpHistory returns the history of a run of 7,200 steps whose weights changed halfway.
func madeUpHistory() api.History {
	now := time.Now().UTC()
	return api.History{Run: "demo", Sources: []string{"web", "math"}, Buckets: []int{1024, 2048, 4096}, KnownSteps: 7200,
		Steps: madeUpSteps(0, 240, 30), RecentSteps: madeUpSteps(7080, 120, 1),
		Times: madeUpTimes(now, 240, 60), RecentTimes: madeUpTimes(now, 300, 2),
		Marks: []api.Mark{{Step: 0, Kind: "leader", Text: "gpu-02.812 leads, term 1"},
			{Step: 3600, Kind: "weights", Text: "web 0.7, math 0.3"},
			{Step: 6900, Kind: "leader", Text: "gpu-01.4711 leads, term 3"}},
		Lengths: []int64{40, 120, 700, 2100, 9000, 31_000, 90_000, 180_000, 260_000, 240_000, 130_000, 52_000, 9000}}
}

func madeUpSteps(first uint64, points int, width uint64) api.StepSeries {
	s := api.StepSeries{Width: width, Buckets: make([][]uint64, 3), Sources: make([][]int64, 2),
		Targets: make([][]float64, 2)}
	for i := range points {
		step := first + uint64(i)*width
		x := float64(i)
		slots := int64(width) * 131_072
		target := 0.5
		if step >= 3600 {
			target = 0.7
		}
		padding := int64(float64(slots) * (0.004 + 0.002*math.Sin(x/9)))
		web := int64(float64(slots-padding) * (target + 0.02*math.Sin(x/4)))
		s.First, s.Steps = append(s.First, step), append(s.Steps, width)
		s.Slots, s.Tokens = append(s.Slots, slots), append(s.Tokens, slots-padding)
		s.Pieces, s.Continued = append(s.Pieces, 900*int64(width)),
			append(s.Continued, int64(float64(110*int64(width))*(1+0.2*math.Cos(x/13))))
		s.Sources[0], s.Sources[1] = append(s.Sources[0], web), append(s.Sources[1], slots-padding-web)
		s.Targets[0], s.Targets[1] = append(s.Targets[0], target), append(s.Targets[1], 1-target)
		share := []float64{0.4 + 0.05*math.Sin(x/7), 0.4, 0.2 - 0.05*math.Sin(x/7)}
		for b := range share {
			s.Buckets[b] = append(s.Buckets[b], uint64(math.Round(share[b]*float64(width)*10)))
		}
		s.Waits = append(s.Waits, 900+uint64(i*17)%300)
		s.P10, s.P50, s.P90 = append(s.P10, 40+i%7), append(s.P50, 300+i%31), append(s.P90, 1500+(i*13)%200)
	}
	return s
}

func madeUpTimes(now time.Time, points int, seconds float64) api.TimeSeries {
	s := api.TimeSeries{Seconds: seconds}
	for i := range points {
		x := float64(i)
		at := now.Add(-time.Duration(float64(points-i) * seconds * float64(time.Second)))
		speed := 1.24e6 * (1 + 0.06*math.Sin(x/6))
		health := "running"
		if i > points-12 {
			speed, health = speed*0.6, "waiting"
		}
		planned := uint64(7271 - float64(points-i)*seconds*0.45)
		s.At, s.Health = append(s.At, at), append(s.Health, health)
		s.Planned, s.Read, s.Committed = append(s.Planned, planned), append(s.Read, planned-40),
			append(s.Committed, planned-170+uint64(i%100))
		s.Tokens, s.Documents, s.Published = append(s.Tokens, speed), append(s.Documents, speed/830),
			append(s.Published, 1520+50*math.Sin(x/3))
		s.Bytes, s.Waiting = append(s.Bytes, speed*17), append(s.Waiting, new(math.Max(0, 0.02*math.Sin(x/10))))
		s.Split, s.Related = append(s.Split, 0.127+0.01*math.Sin(x/8)), append(s.Related, 0.8+0.1*math.Sin(x/15))
	}
	return s
}

// ledgerPages returns a step of 16 rows, in two parts.
func ledgerPages(body []byte) ([]json.RawMessage, error) {
	var q struct {
		Step      uint64
		Documents bool
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return nil, err
	}
	if q.Step > 7271 {
		return nil, &fault.Error{Reason: fault.StepNotPlanned, Message: fmt.Sprintf("step %d is not planned", q.Step),
			Advice: "request an earlier step"}
	}
	page := api.LedgerPage{Step: api.Step{Run: "demo", Index: q.Step, Bucket: 1024, Cursor: 812_400}, Total: 16}
	names := map[uint64]bool{}
	sequence := 600_000 - q.Step
	for r := range 16 {
		var row []api.Piece
		for filled, i := int32(0), 0; filled < 1000; i++ {
			length := min(int32(37+(r*53+i*101)%420), 1024-filled)
			p := api.Piece{Source: []string{"web", "math"}[(r+i)%3%2], Sequence: sequence, Start: int32(i%2) * 512,
				Length: length}
			names[sequence] = p.Source == "web"
			if r == 15 && q.Documents { // of messages with several documents
				loss, weight := length-2, float32(0.5)
				p.LossTokens, p.InnerDocument = &loss, &api.InnerDocument{Index: 7, Within: 3, ID: "inner", Weight: &weight,
					Meta: map[string]any{"lang": "de"}}
			}
			row, filled, sequence = append(row, p), filled+length, sequence+1
		}
		page.Rows = append(page.Rows, row)
	}
	if q.Documents {
		for _, d := range slices.Sorted(maps.Keys(names)) {
			source := "math"
			if names[d] {
				source = "web"
			}
			page.Documents = append(page.Documents, document.Info{Source: source, Sequence: d, Subject: "docs." + source,
				ID: fmt.Sprintf("crawl-%d", d), Path: fmt.Sprintf("%s/part-%d.txt", source, d),
				ContentType: "text/plain", Bytes: 4211, Time: time.Now().Add(-3 * time.Hour)})
		}
		slices.SortFunc(page.Documents, func(a, b document.Info) int { return strings.Compare(a.Source, b.Source) })
	}
	second := page
	second.First, second.Rows, second.Documents = 8, page.Rows[8:], nil
	page.Rows = page.Rows[:8]
	return results(page, second), nil
}

func found(body []byte) []json.RawMessage {
	if !strings.Contains(string(body), "crawl-7") {
		return nil
	}
	inner := &api.InnerDocument{Index: 3, Within: 12, ID: "crawl-7"}
	piece := api.Piece{Source: "web", Sequence: 7, Start: 300, Length: 512, InnerDocument: inner}
	return results(api.FoundRow{Run: "demo", Step: 12, Bucket: 1024, Row: 3, Pieces: []api.Piece{piece}},
		api.FoundRow{Run: "demo", Step: 19, Bucket: 1024, Row: 9,
			Pieces: []api.Piece{{Source: "web", Sequence: 7, Start: 512, Length: 80}}})
}

func textOf(body []byte) api.DocumentText {
	var q struct {
		Source        string
		Sequence      uint64
		Start, Tokens int
	}
	if err := json.Unmarshal(body, &q); err != nil {
		panic(err)
	}
	t := api.DocumentText{Info: document.Info{Source: q.Source, Sequence: q.Sequence}, Total: 4000, Start: q.Start}
	words := []string{"The", " loader", " packs", " docu", "ments", " into", " rows", ";", "\n", "\\xE4", " <b>not",
		" bold</b>", "."}
	for i := range min(q.Tokens, 100) {
		t.Tokens, t.Texts = append(t.Tokens, int32(1000+i)), append(t.Texts, words[i%len(words)])
	}
	return t
}
