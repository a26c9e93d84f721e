package command

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// Output is standard output. It stores the first write error, because some writers, such as the help, do not return
// write errors.
type Output struct {
	io.Writer
	Err error
}

func (o *Output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if err != nil && o.Err == nil {
		o.Err = fmt.Errorf("write standard output: %w", err)
	}
	return n, err
}

// Terminal returns the terminal that w writes to, nil if it is none.
func Terminal(w io.Writer) *os.File {
	if o, ok := w.(*Output); ok {
		w = o.Writer
	}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// RegisterNoHeaders adds the flag --no-headers.
func RegisterNoHeaders(cmd *cobra.Command, omit *bool) {
	cmd.Flags().BoolVar(omit, "no-headers", false, "omit the header of the table")
}
