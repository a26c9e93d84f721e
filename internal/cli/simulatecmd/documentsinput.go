package simulatecmd

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"loaderd/internal/daemon"
	"loaderd/internal/documents"
	"loaderd/internal/jsonlines"
	"loaderd/packonline"
	"loaderd/packonline/similarity"
	"loaderd/tokenizer"
)

// documentsInput reads whole documents, for methods and figures that depend on the documents' content.
type documentsInput struct {
	on        bool
	tokenizer string
}

func (in *documentsInput) register(cmd *cobra.Command, why string) {
	f := cmd.Flags()
	f.BoolVar(&in.on, "documents", false, "the input is JSON lines of documents, not lengths: "+why)
}

// warn warns if no document has the hints that the retriever compares.
func warn(w io.Writer, c *similarity.Config, hints []*similarity.Hint) {
	if lacks := documents.Lacks(c, hints); lacks != "" {
		fmt.Fprintf(w, "loaderd: warning: no document has %s: splice with retriever %s packs by length only; "+
			"add \"%s\" to the lines, or use --retriever bm25\n", jsonlines.Article(lacks), c.Retriever, lacks)
	}
}

// documentHints makes the documents' hints for a configuration. Unless the configuration has a dimension, it sets it
// to that of the embeddings.
func documentHints(cmd *cobra.Command, s *documents.Set, c *packonline.Config) ([]*similarity.Hint, error) {
	if d := s.Dimension(); d > 0 && !cmd.Flags().Changed("dimension") {
		c.Splice.Dimension = d
	}
	hints, err := s.Hints(c.SimilarityConfig())
	if err == nil && c.SimilarityConfig() != nil {
		warn(cmd.ErrOrStderr(), c.SimilarityConfig(), hints)
	}
	return hints, err
}

// read reads JSON lines from the file that args name, or from stdin. It returns the name of the input.
func (in *documentsInput) read(stdin io.Reader, args []string) (*documents.Set, string, error) {
	name, r := "standard input", stdin
	if len(args) > 0 && args[0] != "-" {
		f, err := os.Open(args[0])
		if err != nil {
			return nil, "", fmt.Errorf("read documents: %w", err)
		}
		defer f.Close()
		name, r = args[0], f
	}
	model, err := daemon.LoadModel(in.tokenizer, tokenizer.Options{})
	if err != nil {
		return nil, "", err
	}
	set, err := documents.Read(r, name, model)
	return set, name, err
}
