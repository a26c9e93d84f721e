package corpus

import (
	"context"
	"io"
	"runtime"

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

const (
	// maxAheadBytes bounds the row groups of a Parquet file that are decoded at the same time, in uncompressed bytes.
	maxAheadBytes = 256 << 20
	// interleavedAheadBytes is the same for Options.Interleaved.
	interleavedAheadBytes = 4 << 20
	// maxObjectGroups is the maximum number of these row groups of an object in a store, of which few blocks are cached.
	maxObjectGroups = 2
)

// parquetDocuments yields a document per row of a Parquet file.
func (in *Input) parquetDocuments(ctx context.Context, s source, yield record.Yield) bool {
	p := columnar.Parquet{
		File: s.File, Columns: in.options.columns(),
		Open: func() (*columnfile.ParquetFile, error) { return in.opener().openParquet(ctx, s) },
		OnRows: func(done, all int64) {
			read := int64(float64(s.size) * (float64(done) / float64(max(1, all))))
			in.bytesRead.Store(read)
			in.progress.setContent(read)
		},
		AheadGroups: runtime.GOMAXPROCS(0), AheadBytes: maxAheadBytes,
	}
	if in.options.Interleaved {
		p.AheadGroups, p.AheadBytes = 1, interleavedAheadBytes
	}
	if s.object != nil {
		p.AheadGroups = min(p.AheadGroups, maxObjectGroups)
	}
	if len(in.files) == 1 {
		p.SkippableRows = in.start.Entries
		p.OnGroup = func(rows int64, skipped bool) {
			if in.position = (Position{Entries: rows}); skipped {
				in.setStart(in.position)
			}
		}
	}
	return p.Documents(ctx, yield)
}

// megatronDocuments yields the documents of a pair of files.
func (in *Input) megatronDocuments(s source, yield record.Yield) bool {
	p := tokenids.MegatronPair{File: s.File, Columns: in.options.columns(), IDs: s.bin, OnRead: in.bytesRead.Store}
	return p.Documents(yield)
}

// tokenSource returns the reader of a file of token ids.
func (in *Input) tokenSource(s source) tokenids.Source {
	return tokenids.Source{
		File: s.File, Columns: in.options.columns(), Name: s.name(), Companions: s.companions,
		Type: in.options.TokenType, Boundaries: in.options.Boundaries,
	}
}

// tableSource returns the reader of a table. A pipe can be read only once, and an object only at a high cost.
func (in *Input) tableSource(ctx context.Context, s source) csvtable.Source {
	table := csvtable.Source{
		File: s.File, Columns: in.options.columns(), Options: in.options.CSV, IsTSV: extension(s.name()) == ".tsv",
	}
	if !s.pipe && s.object == nil {
		table.Reopen = func() (io.ReadCloser, error) { return newOpener(in.options).open(ctx, s) }
	}
	return table
}
