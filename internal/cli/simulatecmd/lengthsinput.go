package simulatecmd

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"loaderd/internal/lengths/lengthsin"
)

// lengthsInput reads document lengths from a file of lines, a column of a Parquet file, or standard input.
type lengthsInput struct {
	column string
}

func (in *lengthsInput) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&in.column, "column", "",
		"`name` of the Parquet column with lengths, or with lists whose lengths count")
}

// check reports errors before anything is read.
func (in *lengthsInput) check(args []string) error {
	parquet := len(args) > 0 && lengthsin.IsParquet(args[0])
	switch {
	case parquet && in.column == "":
		return fmt.Errorf("%s: want --column, the column with the lengths", args[0])
	case !parquet && in.column != "":
		return errors.New("--column: want a file that ends in .parquet")
	}
	return nil
}

// read reads lengths from the file that args name, or from stdin. It returns the name of the input.
func (in *lengthsInput) read(stdin io.Reader, args []string) (list []int32, name string, err error) {
	if len(args) > 0 && args[0] != "-" {
		return lengthsin.ReadFile(args[0], in.column)
	}
	name = "standard input"
	list, err = lengthsin.Read(stdin, name)
	return list, name, err
}
