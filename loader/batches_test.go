package loader_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"loaderd/loader/assembly"
	"loaderd/loader/backend"
	"loaderd/loader/document"
	"loaderd/loader/internal/plantest"
	"loaderd/loader/maintenance"
	"loaderd/loader/plan"
	"loaderd/loader/runconfig"
	"loaderd/loader/state"
	"loaderd/packonline"
)

// messages publishes n messages, most of several documents, and returns the number of used tokens of each message.
func (w *fixture) messages(n int) (used []int) {
	r := rand.New(rand.NewPCG(1, 3))
	for i := range n {
		sequence := uint64(i + 1)
		if i%5 == 4 {
			w.docs.lengths(1 + i%20)
			used = append(used, 1+i%20)
			continue
		}
		d := document.Document{}
		var losses []int32
		count := 0
		for k := range 1 + r.IntN(6) {
			x := plan.Part{Length: 1 + r.IntN(30), PackingHints: plan.PackingHints{Hint: hintOf(sequence + uint64(k))}}
			if r.IntN(8) == 0 {
				x = plan.Part{Skip: plan.SkipEmpty}
			}
			if k > 0 && i%2 == 0 { // another part of the document before it
				x.ID, x.SplitIndex = d.Parts[k-1].ID, d.Parts[k-1].SplitIndex+1
			} else {
				x.ID = 1e6*sequence + uint64(k)
			}
			x.Loss = plantest.Loss(sequence+1000*uint64(k), x.Length)
			if x.Skip == "" {
				count += x.Length
			}
			d.Docs = append(d.Docs, document.Doc{Start: int32(len(d.Tokens)), Weight: weightOf(uint64(k))})
			d.Tokens = append(d.Tokens, make([]int32, x.Length)...)
			d.Parts = append(d.Parts, x)
			losses = append(losses, runs(x)...)
		}
		d.Tokens, d.Loss = documentTokens(sequence, len(d.Tokens)), plan.NewLossRuns(losses)
		w.docs.publish(d)
		used = append(used, count)
	}
	return used
}

// runs returns an even number of run lengths, alternately with and without loss.
func runs(x plan.Part) []int32 {
	out := slices.Clone([]int32(x.Loss))
	if x.Loss == nil {
		out = []int32{int32(x.Length)}
	}
	if len(out)%2 == 1 {
		out = append(out, 0)
	}
	return out
}

// checkMessages checks that each span is part of one document of its message, and the batch's data of that document.
func (w *fixture) checkMessages(t *testing.T, b *assembly.Batch) {
	t.Helper()
	tokens := tokensOf(t, b)
	if b.Weights != nil && !slices.ContainsFunc(slices.Concat(b.Weights...), func(weight float32) bool {
		return weight != 1
	}) {
		t.Fatalf("step %d: the weights of rows %d to %d are all 1, want none", b.Step, b.First, b.First+b.Rows-1)
	}
	for i, pieces := range b.Pieces {
		at := i * b.Bucket
		var labels []bool
		if b.Loss != nil {
			for k, n := range b.Loss[i] {
				labels = append(labels, slices.Repeat([]bool{k%2 == 0}, int(n))...)
			}
		}
		slot := 0
		for k, p := range pieces {
			d := w.docs.docs[p.Doc-1]
			index, begin := 0, int32(0)
			for x := d.Documents(); begin+int32(x[index].Length) <= p.Start; index++ {
				begin += int32(x[index].Length)
			}
			x := d.Documents()[index]
			if p.Start+p.Length > begin+int32(x.Length) || x.Skip != "" {
				t.Fatalf("step %d: piece %v goes beyond document %d of its message, which has tokens [%d, %d)", b.Step, p, index,
					begin, begin+int32(x.Length))
			}
			if !slices.Equal(tokens[at:at+int(p.Length)], d.Tokens[p.Start:p.Start+p.Length]) {
				t.Fatalf("step %d: piece %v holds %v", b.Step, p, tokens[at:at+int(p.Length)])
			}
			at += int(p.Length)
			if b.PieceDocuments != nil && d.Parts != nil &&
				b.PieceDocuments[i][k] != (assembly.PieceDocument{Index: int32(index), Start: begin}) {
				t.Fatalf("step %d: piece %v is of document %+v, want %d from %d on", b.Step, p, b.PieceDocuments[i][k],
					index, begin)
			}
			weight := float32(1)
			if d.Weight != nil {
				weight = *d.Weight
			}
			if d.Docs != nil && d.Docs[index].Weight != nil {
				weight = *d.Docs[index].Weight
			}
			if b.Weights == nil && weight != 1 || b.Weights != nil && b.Weights[i][k] != weight {
				t.Fatalf("step %d: piece %v has the weight of %v, want %v", b.Step, p, b.Weights, weight)
			}
			var mask []bool
			for k, n := range runs(plan.Part{Length: d.Len(), Loss: d.Loss}) {
				mask = append(mask, slices.Repeat([]bool{k%2 == 0}, int(n))...)
			}
			for k := range p.Length {
				if has := labels == nil || labels[slot]; has != mask[p.Start+k] {
					t.Fatalf("step %d row %d: token %d of piece %v has a loss: %v", b.Step, i, k, p, has)
				}
				slot++
			}
		}
	}
}

// In messages of several documents, each document is packed separately and exactly once. Restarts, an audit and a
// fork give the same result.
func TestMultipleDocuments_PackedSeparatelyExactlyOnce(t *testing.T) {
	split := runconfig.MaxTokens{At: 30, Do: runconfig.MaxSplit}
	for i, method := range packonline.Methods() {
		t.Run(method, func(t *testing.T) {
			c := config(method)
			c.Documents.MultiplePerMessage = i%2 == 0
			if !c.Documents.MultiplePerMessage { // the stream's messages hold one document each
				c.Documents.MaxTokens = split
			}
			whole := newFixture(c)
			used := whole.messages(80)
			want := whole.sealed(t)
			for _, b := range want {
				whole.checkMessages(t, b)
			}
			if _, err := maintenance.Audit(t.Context(), backend.Backends{Sources: onlySource{Documents: whole.docs},
				Plan: whole.plan}, c.Tokenizer, nil); err != nil {
				t.Error(err)
			}
			w := newFixture(c)
			w.options.CheckpointSteps, w.options.Ahead = 1, 1
			w.docs = whole.docs
			for got := 0; got < len(want); {
				run, stop := w.start(t)
				if got == 0 {
					if _, err := run.Seal(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				for _, b := range read(t, run, state.RankID{World: 1}, uint64(got), min(3, len(want)-got)) {
					if !reflect.DeepEqual(b, want[got]) {
						t.Fatalf("step %d behind a restart is another one", got)
					}
					got++
				}
				if err := stop(); err != nil {
					t.Fatal(err)
				}
			}
			half := len(want) / 2
			seen, all := map[string]int{}, map[string]int{}
			uses(want, all)
			uses(want[:half], seen)
			uses(forked(t, whole, uint64(half), 0), seen)
			if !reflect.DeepEqual(seen, all) {
				t.Error("a fork plans other tokens")
			}
			for i, n := range used {
				for k := range w.docs.docs[i].Len() {
					n -= all[fmt.Sprint(i+1, "/", k)]
				}
				if n != 0 {
					t.Errorf("message %d: %d of its tokens have not come", i+1, n)
				}
			}
		})
	}
}
