package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// mixed runs the program. It returns source and number of each taken document, and the tokens of each document in the
// steps.
func mixed(t *testing.T, q request) (taken [][2]uint32, inSteps map[[2]uint32]int32) {
	t.Helper()
	in, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	pairs, triples := filepath.Join(folder, "taken"), filepath.Join(folder, "steps")
	var out bytes.Buffer
	if err := run([]string{"-taken", pairs, "-steps", triples}, bytes.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	read := func(path string, into any) {
		b, err := os.ReadFile(path)
		if err == nil {
			err = binary.Read(bytes.NewReader(b), binary.LittleEndian, into)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	size := func(path string, of int64) int64 {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size() / of
	}
	taken = make([][2]uint32, size(pairs, 8))
	read(pairs, taken)
	pieces := make([][3]uint32, size(triples, 12))
	read(triples, pieces)
	inSteps = map[[2]uint32]int32{}
	for _, p := range pieces {
		inSteps[[2]uint32{p[0], p[1]}] += int32(p[2])
	}
	var r result
	if err := json.Unmarshal(out.Bytes(), &r); err != nil || r.Documents != len(taken) {
		t.Fatalf("%s, %v: %d documents were taken", out.Bytes(), err, len(taken))
	}
	return taken, inSteps
}

func someLengths(n int, length int32) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = length + int32(i%7)
	}
	return out
}

// The result is the same with and without a restart at a change of weights. Shares follow the change, and no token is
// duplicated.
func TestRun_SameWithAndWithoutRestart(t *testing.T) {
	q := request{Weights: [][]float64{{1, 1}, {3, 1}}, Changes: []int64{2e6}, Tokens: 4e6,
		Lengths: [][]int32{someLengths(8000, 500), someLengths(2000, 2000)}}
	taken, inSteps := mixed(t, q)
	q.Restart = true
	again, _ := mixed(t, q)
	if !reflect.DeepEqual(taken, again) {
		t.Error("a restart changes what is taken")
	}
	var tokens [2][2]int64 // before and after the change, by source
	seen, all := map[[2]uint32]bool{}, int64(0)
	for _, d := range taken {
		if seen[d] {
			t.Fatalf("%v is taken twice", d)
		}
		seen[d] = true
		half := 0
		if all >= q.Changes[0] {
			half = 1
		}
		n := q.Lengths[d[0]][d[1]]
		all += int64(n)
		tokens[half][d[0]] += int64(n)
		if inSteps[d] > n {
			t.Errorf("%v has %d tokens in the steps, and %d at all", d, inSteps[d], n)
		}
	}
	if a, b := tokens[0][0]*100/(tokens[0][0]+tokens[0][1]), tokens[1][0]*100/(tokens[1][0]+tokens[1][1]); a < 49 ||
		a > 50 || b < 74 || b > 75 {
		t.Errorf("shares are %d %% and %d %%", a, b)
	}
}

// Each epoch has a different order and is complete.
func TestRun_EpochsDifferAndAreComplete(t *testing.T) {
	taken, _ := mixed(t, request{Weights: [][]float64{{1}}, Epochs: 2, Block: 64,
		Lengths: [][]int32{someLengths(2000, 3000)}})
	if len(taken) != 4000 || reflect.DeepEqual(taken[:2000], taken[2000:]) {
		t.Fatalf("%d documents", len(taken))
	}
	seen := map[uint32]int{}
	for _, d := range taken[:2000] {
		seen[d[1]]++
	}
	if len(seen) != 2000 {
		t.Errorf("the first epoch has %d of 2000 documents", len(seen))
	}
}

func TestRun_RefusesInvalidRequests(t *testing.T) {
	for request, says := range map[string]string{
		``: "read the request",
		`{"weights":[[1,1]],"changes":[5],"lengths":[[1],[1]]}`: "want a weight",
		`{"weights":[[1]],"lengths":[[1],[1]]}`:                 "want a weight",
	} {
		if err := run(nil, strings.NewReader(request), &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", request, err, says)
		}
	}
}
