package publishcmd

import (
	"errors"
	"fmt"

	"loaderd/internal/cli/command"
	"loaderd/internal/corpus"
	"loaderd/internal/corpus/csvtable"
	"loaderd/stream/publish"
	"loaderd/tokenizer"
)

// check reports errors of the command line.
func (f *publishFlags) check(paths []string, tokens bool) error {
	if (f.config.TLS.Cert == "") != (f.config.TLS.Key == "") {
		return errors.New("want --tls-cert and --tls-key together")
	}
	for _, e := range f.config.Validate() {
		return command.NameFlags(fmt.Errorf("stream.%w", e))
	}
	for _, e := range f.trace.Validate() {
		return fmt.Errorf("--%s: %w", map[string]string{"endpoint": "trace", "share": "trace-share"}[e.Field], e)
	}
	if err := publish.CheckSource(f.options.Source); err != nil {
		return fmt.Errorf("--source: %w", err)
	}
	if err := f.checkReading(); err != nil {
		return err
	}
	if f.following.on && f.corpus.Split != "" {
		return errors.New("--split selects a part of a saved dataset, which --follow does not read")
	}
	if tokens && !tokenizer.FingerprintPattern.MatchString(f.options.Fingerprint) {
		return fmt.Errorf("--tokenizer-fingerprint %q: want sha256: and 64 hexadecimal digits, as loaderd tokenize "+
			"--fingerprint prints it", f.options.Fingerprint)
	}
	if f.wait < 0 {
		return fmt.Errorf("--wait %v: want 0 (try once) or longer", f.wait)
	}
	for _, path := range paths {
		switch {
		case path == "-" && f.untilEOF:
			return errors.New("- and --until-eof both read standard input")
		case path == "-" && len(paths) > 1:
			return errors.New("- (standard input) cannot be combined with other paths")
		case path == "-" && f.corpus.Format == corpus.Parquet:
			return errors.New("standard input cannot be Parquet, whose index is at the end: pass a file")
		}
	}
	return nil
}

// checkReading checks the flags for reading files.
func (f *publishFlags) checkReading() error {
	if err := f.corpus.Format.Check(); err != nil {
		return fmt.Errorf("--format: %w", err)
	}
	if _, err := corpus.FindEncoding(f.corpus.Encoding); err != nil {
		return fmt.Errorf("--encoding: %w", err)
	}
	if err := csvtable.CheckQuoting(f.corpus.CSV.Quoting); err != nil {
		return fmt.Errorf("--csv-quoting: %w", err)
	}
	if err := csvtable.CheckEscape(f.corpus.CSV.Escape); err != nil {
		return fmt.Errorf("--csv-escape: %w", err)
	}
	return f.corpus.CheckColumns()
}
