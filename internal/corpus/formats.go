package corpus

import (
	"context"
	"io"

	"loaderd/internal/columnfile"
	"loaderd/internal/corpus/columnar"
	"loaderd/internal/corpus/csvtable"
	"loaderd/internal/corpus/record"
	"loaderd/internal/corpus/tokenids"
)

// columns returns the columns that the options select.
func (o Options) columns() record.Columns {
	return record.Columns{
		Text: o.textField(), ID: o.IDField, Tokens: o.Tokens, MaxDocument: o.MaxDocument, Meta: o.Meta,
	}
}

// parquet yields a document per row of a Parquet file.
func (in *Input) parquet(ctx context.Context, s source, yield record.Yield) bool {
	p := columnar.Parquet{
		File: s.File, Columns: in.options.columns(),
		Open:   func() (*columnfile.Parquet, error) { return in.opener().parquet(ctx, s) },
		OnRows: func(done, all int64) { in.read.Store(s.size * done / max(1, all)) },
	}
	if len(in.files) == 1 {
		p.From = in.from.Entries
		p.OnGroup = func(rows int64, skipped bool) {
			if in.at = (Place{Entries: rows}); skipped {
				in.begin(in.at)
			}
		}
	}
	return p.Documents(yield)
}

// megatron yields the documents of a pair of files.
func (in *Input) megatron(s source, yield record.Yield) bool {
	p := tokenids.Pair{File: s.File, Columns: in.options.columns(), IDs: s.bin, OnRead: in.read.Store}
	return p.Documents(yield)
}

// tokens returns the reader of a file of token ids.
func (in *Input) tokens(s source) tokenids.Source {
	return tokenids.Source{
		File: s.File, Columns: in.options.columns(), Name: s.name(), Companions: s.companions,
		Type: in.options.TokenType, Cut: in.options.Cut,
	}
}

// csv returns the reader of a table. A pipe can be read only once, and an object only at a high cost.
func (in *Input) csv(ctx context.Context, s source) csvtable.Source {
	table := csvtable.Source{
		File: s.File, Columns: in.options.columns(), Options: in.options.CSV, Tabs: extension(s.name()) == ".tsv",
	}
	if !s.pipe && s.object == nil {
		table.Reopen = func() (io.ReadCloser, error) { return newOpener(in.options).open(ctx, s) }
	}
	return table
}
