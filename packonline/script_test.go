package packonline_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"loaderd/packonline"
)

var update = flag.Bool("update", false, "write what the scripts do into testdata")

// TestPacker_Scripts runs testdata/*.script. A line that starts with ">" is output of the command before it. The other
// lines are commands and comments (#):
//
//	new METHOD LENGTH[,LENGTH...] pool=N max-age=N [hold=N] [atom=N] [overlap=R] [extra=N] [padding-threshold=P]
//	    [max-documents=N] [seed=N]
//	add LENGTH ...                      documents are named a, b, c ... in order of arrival
//	flush
//	restart                             the state is carried over to a fresh Packer
//
// A row is shown as its pieces, document[start:end] with its age if that is not 0, then dots for padding. "+" before
// them marks a row in the same atom as the row above. With several row lengths, the row's length is shown as well.
func TestPacker_Scripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.script")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var have strings.Builder
			var s script
			for i, line := range strings.Split(strings.TrimSuffix(string(want), "\n"), "\n") {
				if strings.HasPrefix(line, ">") {
					continue
				}
				fmt.Fprintln(&have, line)
				if err := s.run(line, &have); err != nil {
					t.Fatalf("%s:%d: %s: %v", file, i+1, line, err)
				}
			}
			if *update {
				if err := os.WriteFile(file, []byte(have.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if have.String() != string(want) {
				t.Errorf("%s plays as\n%s", file, have.String())
			}
		})
	}
}

type script struct {
	out packonline.Rows
	c   packonline.Config
	p   packonline.Packer
	seq uint64
}

func (s *script) run(line string, w *strings.Builder) error {
	words := strings.Fields(line)
	if len(words) == 0 || words[0] == "#" {
		return nil
	}
	var err error
	switch words[0] {
	case "new":
		if s.c, err = scriptConfig(words[1:]); err != nil {
			return err
		}
		s.seq = 0
		s.p, err = packonline.New(s.c)
		return err
	case "add":
		for _, word := range words[1:] {
			n, err := strconv.Atoi(word)
			if err != nil {
				return err
			}
			s.p.Add(packonline.Doc{Seq: s.seq, Length: int32(n)}, &s.out)
			s.seq++
		}
	case "flush":
		s.p.Flush(&s.out)
	case "restart":
		state := s.p.AppendState(nil)
		if s.p, err = packonline.New(s.c); err != nil {
			return err
		}
		if _, err := s.p.RestoreState(state); err != nil {
			return err
		}
	default:
		return fmt.Errorf("no such command")
	}
	for i := range s.out.Len() {
		length, pieces, ages := s.out.Row(i)
		fmt.Fprint(w, ">")
		if s.out.IsJoined(i) {
			fmt.Fprint(w, " +")
		}
		if len(s.c.Buckets) > 1 {
			fmt.Fprintf(w, " %d:", length)
		}
		for k, x := range pieces {
			fmt.Fprintf(w, " %s[%d:%d]", name(x.Doc), x.Start, x.Start+x.Length)
			if ages[k] > 0 {
				fmt.Fprintf(w, " age %d", ages[k])
			}
			length -= x.Length
		}
		fmt.Fprintln(w, strings.TrimRight(" "+strings.Repeat(".", int(length)), " "))
	}
	s.out.Reset()
	if x := s.p.Pending(); x.HasPieces() {
		rows := ""
		if x.Held.Rows > 0 {
			rows = fmt.Sprintf(" %d rows with %d,", x.Held.Rows, x.Held.Pieces)
		}
		fmt.Fprintf(w, "> waiting: %d pieces,%s %d tokens, oldest %s\n", x.Pieces, rows, x.Tokens, name(x.Oldest))
	} else {
		fmt.Fprintln(w, "> nothing waits")
	}
	return nil
}

func scriptConfig(words []string) (c packonline.Config, err error) {
	c = packonline.Config{Method: words[0], Atom: 1}
	for word := range strings.SplitSeq(words[1], ",") {
		n, err := strconv.Atoi(word)
		if err != nil {
			return c, err
		}
		c.Buckets = append(c.Buckets, n)
	}
	for _, word := range words[2:] {
		key, value, _ := strings.Cut(word, "=")
		field, known := map[string]any{"pool": &c.Pool, "holdback": &c.Holdback, "max-age": &c.MaxAge, "atom": &c.Atom,
			"overlap": &c.Overlap, "extra": &c.Extra, "max-documents": &c.MaxDocumentsPerRow,
			"padding-threshold": &c.PaddingThreshold, "seed": &c.Seed}[key]
		if !known {
			return c, fmt.Errorf("no such setting: %s", word)
		}
		if _, err := fmt.Sscan(value, field); err != nil {
			return c, fmt.Errorf("%s: %w", word, err)
		}
	}
	return c, nil
}

func name(doc uint64) string { return string(rune('a' + doc)) }
