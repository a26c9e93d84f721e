package cli

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// output is standard output. It keeps the first error of a write, because some writers, such as the help, do not return it.
type output struct {
	io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if err != nil && o.err == nil {
		o.err = fmt.Errorf("write standard output: %w", err)
	}
	return n, err
}

// terminal is the terminal that w writes to, nil if it is none.
func terminal(w io.Writer) *os.File {
	if o, ok := w.(*output); ok {
		w = o.Writer
	}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}
