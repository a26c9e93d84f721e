package planrecord

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"reflect"
	"strings"
	"testing"

	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/packonline"
)

func someStep(rows, pieces int) *plan.Step {
	s := &plan.Step{Index: 41, Bucket: 2048, Cursor: plan.PositionAfter(99999), LowWatermark: plan.PositionBefore(70000)}
	for i := range rows {
		var row []packonline.Piece
		for k := range pieces {
			row = append(row, packonline.Piece{Doc: uint64(1000 + i*7 - k*3), Start: int32(k % 3 * 500), Length: int32(1 + k)})
		}
		s.Rows = append(s.Rows, row)
	}
	return s
}

// masked returns the step with tokens that have no loss. The middle piece of every third row begins with repeated
// tokens.
func masked(s *plan.Step) *plan.Step {
	s.Masked, s.MaskedSegmentStarts = 70, 3
	for i := 0; i < len(s.Rows); i += 3 {
		s.Repeats = append(s.Repeats, plan.Repeat{Row: i, Piece: 1, Tokens: 2}, plan.Repeat{Row: i, Piece: 2, Tokens: 1})
	}
	return s
}

// lossStep returns the step as one of a run with shares of tokens with a loss, of three sources.
func lossStep(s *plan.Step) *plan.Step {
	all := -s.Masked
	for _, row := range s.Rows {
		all += plan.RowTokens(row)
	}
	s.SourceLossTokens = []int64{all - 5, 0, 5}
	return s
}

func TestStep_RoundTrip(t *testing.T) {
	empty := someStep(4, 2)
	empty.Rows[1] = nil
	for _, c := range []struct {
		name    string
		step    *plan.Step
		limit   int
		records int
	}{
		{"one record", someStep(64, 3), 1 << 20, 1},
		{"rows of padding", empty, 1 << 20, 1},
		{"several records", someStep(64, 3), 600, 2},
		{"a record a row", someStep(3, 40), 280, 3},
		{"tokens without a loss", masked(someStep(64, 3)), 1 << 20, 1},
		{"these in several records", masked(someStep(64, 3)), 700, 4},
		{"tokens with a loss by source", lossStep(masked(someStep(64, 3))), 1 << 20, 1},
		{"these of sources in several records", lossStep(masked(someStep(64, 3))), 700, 5},
		{"these of a step whose tokens all have a loss", lossStep(someStep(4, 3)), 1 << 20, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			records, err := EncodeStep(c.step, c.limit)
			if err != nil {
				t.Fatal(err)
			}
			if len(records) != c.records {
				t.Errorf("%d records, want %d", len(records), c.records)
			}
			var j StepJoiner
			for i, b := range records {
				if len(b) > c.limit {
					t.Errorf("record %d has %d bytes", i, len(b))
				}
				rec, err := Decode(b)
				if err != nil {
					t.Fatal(err)
				}
				s, err := j.Add(rec)
				if err != nil {
					t.Fatal(err)
				}
				if (s != nil) != (i == len(records)-1) {
					t.Fatalf("complete after record %d of %d", i, len(records))
				}
				if s != nil && !reflect.DeepEqual(s, c.step) {
					t.Fatalf("got %+v", s)
				}
			}
		})
	}
	if _, err := EncodeStep(someStep(3, 4000), 600); err == nil ||
		!strings.Contains(err.Error(), "max_payload") {
		t.Errorf("a row larger than a record: %v", err)
	}
}

func TestDecode_DetectsDamagedRecords(t *testing.T) {
	records, err := EncodeStep(someStep(4, 2), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for i := range records[0] {
		b := bytes.Clone(records[0])
		b[i] ^= 4
		if _, err := Decode(b); err == nil {
			t.Fatalf("byte %d changed and no error was reported", i)
		}
		if _, err := Decode(records[0][:i]); err == nil {
			t.Fatalf("cut to %d bytes and no error was reported", i)
		}
	}
}

// A step whose tokens with a loss by source do not add up to those of its rows is rejected, and so is a part of another
// kind than the part before it.
func TestStepJoiner_ChecksLossTokensOfSources(t *testing.T) {
	join := func(steps ...*plan.Step) (err error) {
		var j StepJoiner
		for i, s := range steps {
			records, encodeErr := EncodeStep(s, 700)
			if encodeErr != nil || len(records) < 2 {
				t.Fatal(len(records), encodeErr)
			}
			records = records[i : i+1] // record i of step i, or all of a single step
			if len(steps) == 1 {
				records, _ = EncodeStep(s, 700)
			}
			for _, b := range records {
				e, err := Decode(b)
				if err != nil {
					t.Fatal(err)
				}
				if _, err = j.Add(e); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := join(lossStep(masked(someStep(64, 3)))); err != nil {
		t.Error(err)
	}
	wrong := lossStep(masked(someStep(64, 3)))
	wrong.SourceLossTokens[1]++
	if err := join(wrong); err == nil || !strings.Contains(err.Error(), "tokens with a loss, and") {
		t.Error(err)
	}
	if err := join(lossStep(someStep(64, 3)), someStep(64, 3)); err == nil {
		t.Error("parts of different kinds are joined")
	}
}

func FuzzDecodeRecord(f *testing.F) {
	records, err := EncodeStep(someStep(20, 3), 300)
	if err != nil {
		f.Fatal(err)
	}
	mixed := &plan.Step{Index: plan.SourcePositionInterval, Bucket: 10, Cursor: plan.PositionAfter(9),
		SourcePositions: []mixture.SourcePosition{{Epoch: 1, Taken: 4},
			{Taken: 5}},
		Rows: [][]packonline.Piece{{{Doc: plan.Ref(0, 7), Length: 4}, {Doc: plan.Ref(1, 3), Length: 6}},
			{{Doc: plan.Ref(1, 5), Start: 2, Length: 10}}, {{Doc: plan.Ref(0, 2), Length: 3}}, nil}}
	several, err := EncodeStep(mixed, 300)
	if err != nil {
		f.Fatal(err)
	}
	records = append(records, several...)
	if several, err = EncodeStep(masked(someStep(20, 3)), 500); err != nil {
		f.Fatal(err)
	}
	records = append(records, several...)
	if several, err = EncodeStep(lossStep(masked(someStep(20, 3))), 500); err != nil {
		f.Fatal(err)
	}
	records = append(records, several...)
	mixed.Masked, mixed.Repeats = 4, []plan.Repeat{{Row: 0, Piece: 1, Tokens: 6}}
	if several, err = EncodeStep(mixed, 500); err != nil {
		f.Fatal(err)
	}
	records = append(records, several...)
	for _, b := range append(records, Encode(Seal{}),
		Encode(Seal{Requester: "alice"}), Encode(Flush{Arrival: 78, Requester: "bob/7"}),
		Encode(SealSource{Arrival: 79, Requester: "c", Source: 2, Last: 9}),
		Encode(Commit{Job: "a", Step: 9}),
		Encode(Commit{Job: "a", Step: 9, Skipped: 4}),
		Encode(Resize{"a", WorldSize{Step: 9, Ranks: 300}}),
		Encode(Term{Daemon: "host/7"}),
		Encode(Term{}),
		Encode(Mix{Arrival: 5, Requester: "c", Change: mixture.Change{Weights: map[string]float64{"web": 1}},
			DecidedStep: new(uint64)}), Encode(Header{Run: "x"}),
		Encode(ForkState{Part: 3, State: []byte("state")})) {
		f.Add(b[:len(b)-4]) // the fuzz function adds the checksum, without which no other code is reached
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 4 {
			return
		}
		e, err := Decode(encodeRecord(b[3], b[4:]))
		if err != nil {
			return
		}
		part, ok := e.(StepPart)
		if !ok {
			if again, err := Decode(Encode(e)); err != nil || !reflect.DeepEqual(again, e) {
				t.Fatalf("%+v does not survive: %+v, %v", e, again, err)
			}
			return
		}
		var j StepJoiner
		if s, err := j.Add(e); err == nil && s != nil {
			again, err := EncodeStep(s, 1<<26)
			if err != nil {
				t.Fatal(err)
			}
			second, err := Decode(again[0])
			if err != nil || !reflect.DeepEqual(second.(StepPart).Rows, part.Rows) ||
				!reflect.DeepEqual(second.(StepPart).Repeats, part.Repeats) || s.Masked != part.Masked ||
				!reflect.DeepEqual(second.(StepPart).SourceLossTokens, part.SourceLossTokens) {
				t.Fatalf("a decoded step does not survive: %v", err)
			}
		}
	})
}

func FuzzDecodeCheckpoint(f *testing.F) {
	good := Checkpoint{Fingerprint: "sha256:ab", Tail: Tail{Position: 7, Checksum: 9},
		Commits:    Commits{"a": {Step: 3}, "b": {Step: 9, Skipped: 4}},
		WorldSizes: WorldSizes{"b": {Step: 4, Ranks: 2}, "c": {Step: 5, Ranks: 300}},
		Pending: []Control{Flush{Arrival: 7}, Flush{Arrival: 8, Requester: "bob"},
			SealSource{Arrival: 12, Requester: "alice", Source: 0, Last: 9}}, Planner: []byte("state")}.Encode()
	f.Add(good[3 : len(good)-4]) // the fuzz function adds the frame, without which no other code is reached
	f.Fuzz(func(t *testing.T, body []byte) {
		b := append([]byte{checkpointMagic[0], checkpointMagic[1], worldVersion},
			body...)
		c, err := DecodeCheckpoint(binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli)))
		if err != nil {
			return
		}
		if again, err := DecodeCheckpoint(c.Encode()); err != nil || !reflect.DeepEqual(again, c) {
			t.Fatalf("a decoded checkpoint does not survive: %+v, %v", again, err)
		}
	})
}

func TestDecodeCheckpoint_DetectsDamage(t *testing.T) {
	good := Checkpoint{Fingerprint: "sha256:ab", Tail: Tail{Position: 7, Checksum: 9},
		Commits:    Commits{"a": {Step: 3}, "b": {Step: 9, Skipped: 4}},
		WorldSizes: WorldSizes{"b": {Step: 4, Ranks: 2}, "c": {Step: 5, Ranks: 300}},
		Pending: []Control{Flush{Arrival: 7}, Flush{Arrival: 8, Requester: "bob"},
			SealSource{Arrival: 12, Requester: "alice", Source: 0, Last: 9}}, Planner: []byte("state")}.Encode()
	if c, err := DecodeCheckpoint(good); err != nil || string(c.Planner) != "state" ||
		c.Tail != (Tail{Position: 7, Checksum: 9}) {
		t.Fatalf("%+v, %v", c, err)
	}
	for i := range good {
		b := bytes.Clone(good)
		b[i] ^= 1
		if _, err := DecodeCheckpoint(b); err == nil {
			t.Fatalf("byte %d changed and no error was reported", i)
		}
		if _, err := DecodeCheckpoint(good[:i]); err == nil {
			t.Fatalf("cut to %d bytes and no error was reported", i)
		}
	}
}
