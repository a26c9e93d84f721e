package corpus

import (
	"context"
	"io"
	"runtime"

	"loaderd/internal/columnfile"
	"loaderd/internal/corpus/archive"
	"loaderd/internal/corpus/columnar"
	"loaderd/internal/corpus/compression"
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

// megatronDocuments yields the documents of a pair of files, from the requested position on.
func (in *Input) megatronDocuments(ctx context.Context, s source, yield record.Yield) bool {
	in.setStart(Position{Entries: in.start.Entries})
	ids := s
	ids.Origin, ids.object = s.bin, s.ids
	p := tokenids.MegatronPair{
		File: s.File, Columns: in.options.columns(), OnRead: in.bytesRead.Store, Start: in.start.Entries,
		OpenIndex:  func() (tokenids.RandomFile, error) { return in.opener().openRandom(ctx, s) },
		OpenIDs:    func() (tokenids.RandomFile, error) { return in.opener().openRandom(ctx, ids) },
		OnDocument: func(documents int64) { in.position = Position{Entries: documents} },
	}
	return p.Documents(yield)
}

// shardDocuments yields the documents of a shard of MDS. body has the data of r, including the part that was already
// read. Of a raw shard, only the header and the samples from the requested position on are read.
func (in *Input) shardDocuments(ctx context.Context, s source, r *compression.Reader, body io.Reader,
	yield record.Yield) bool {
	places := in.canSeek(r)
	m := columnar.MDS{
		File: s.File, Columns: in.options.columns(), Shard: s.shard, TokenType: in.options.TokenType,
		OnSample: func(samples int64) {
			if places {
				in.position = Position{Entries: samples}
			}
		},
	}
	if places && !s.pipe && in.start.Entries > 0 {
		shard, err := in.opener().openRandom(ctx, s)
		if err != nil {
			return s.Fail(yield, err)
		}
		defer shard.Close() //nolint:errcheck // it is only read
		in.setStart(Position{Entries: in.start.Entries})
		m.Start = in.start.Entries
		m.At = func(offset int64) io.Reader {
			in.bytesRead.Store(offset)
			return countingReader{io.NewSectionReader(shard, offset, s.size-offset), &in.bytesRead}
		}
		body = m.At(0)
	}
	return m.Documents(body, yield)
}

// warcDocuments yields the documents of a web archive, of a file or an object from the requested position on.
func (in *Input) warcDocuments(ctx context.Context, s source, r *compression.Reader, body io.Reader,
	yield record.Yield) bool {
	w := archive.WARC{File: s.File, Columns: in.options.columns()}
	if len(in.files) == 1 && !s.pipe {
		if in.start.isWithin(s) {
			later, err := in.openAt(ctx, s)
			if err == nil {
				r, err = compression.NewReader(s.name(), countingReader{later, &in.bytesRead}, later.Close)
			}
			if err != nil {
				return s.Fail(yield, err)
			}
			defer r.Close() //nolint:errcheck // it is only read
			body, w.Start = r, in.start.Line
		}
		start := in.actualStart
		w.OnEntry = func(entries, offset, records int64) {
			in.position = Position{start.Entries + entries, start.Offset + offset, records}
		}
	}
	return w.Documents(r, body, yield)
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
