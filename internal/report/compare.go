package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"loaderd/internal/relatedness"
	"loaderd/internal/simulation"
	"loaderd/packonline"
)

// Comparison is a method to compare, or the problem for which it is skipped.
type Comparison struct {
	Config  packonline.Config
	Problem error
}

// ErrNoDocuments is the problem of methods that need documents' content, if only lengths are given.
var ErrNoDocuments = errors.New("it packs documents that have to do with one another: give them with --documents")

// Comparisons makes a comparison of each method, with the settings of c. Methods with one row length take the longest
// row.
func Comparisons(c packonline.Config, methods []string, documents bool) []Comparison {
	var all []Comparison
	for _, m := range methods {
		one := Comparison{Config: c}
		one.Config.Method = m
		if !packonline.IsMultiBucket(m) {
			one.Config.Buckets = c.Buckets[len(c.Buckets)-1:]
		}
		if one.Config.SimilarityConfig() != nil && !documents {
			one.Problem = ErrNoDocuments
		} else if problems := simulation.Validate(one.Config); len(problems) > 0 {
			one.Problem = problems[0]
		}
		all = append(all, one)
	}
	return all
}

// CommonProblems returns the errors in c that every method with several row lengths reports. The other errors are
// reported per method.
func CommonProblems(c packonline.Config) []packonline.FieldError {
	var least []packonline.FieldError
	first := true
	for _, c.Method = range packonline.Methods() {
		if !packonline.IsMultiBucket(c.Method) {
			continue
		}
		if bad := simulation.Validate(c); first || len(bad) < len(least) {
			least, first = bad, false
		}
	}
	return least
}

// SkipUnboundedPools sets a problem for comparisons whose pool is the whole input (0) and whose method cannot hold
// that many documents.
func SkipUnboundedPools(all []Comparison, documents int) {
	for i, one := range all {
		if one.Problem != nil || one.Config.Pool != 0 {
			continue
		}
		one.Config.Pool = max(documents, 1)
		if problems := one.Config.Validate(); len(problems) > 0 {
			all[i].Problem = problems[0]
		}
	}
}

// Compare packs with all methods that have no problem, adds the results in order, and chooses the best method. pack
// may return nil for the relatedness of documents. progress is called before each method with the number of methods
// before it.
func (r *Report) Compare(all []Comparison,
	pack func(packonline.Config) (*simulation.Result, *relatedness.Metrics, error),
	progress func(done int)) error {
	for i, one := range all {
		method := one.Config.Method
		progress(i)
		if one.Problem != nil {
			r.Skipped = append(r.Skipped, SkippedMethod{Method: method, Reason: one.Problem.Error()})
			continue
		}
		result, figures, err := pack(one.Config)
		if err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		r.Add(result, figures)
	}
	r.ChooseBest()
	return nil
}

// WriteFolder writes compare.json and report.html into a folder and returns the path of the latter.
func (r *Report) WriteFolder(folder string) (page string, err error) {
	for _, f := range []struct {
		name  string
		write func(io.Writer) error
	}{{"compare.json", r.WriteJSON}, {"report.html", r.WriteHTML}} {
		var b bytes.Buffer
		if err := f.write(&b); err != nil {
			return "", err
		}
		page = filepath.Join(folder, f.name)
		if err := os.WriteFile(page, b.Bytes(), 0o644); err != nil {
			return "", fmt.Errorf("write comparison: %w", err)
		}
	}
	return page, nil
}
