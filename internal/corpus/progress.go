package corpus

import "loaderd/internal/corpus/record"

// expansion is the assumed ratio of the content of a compressed file to its size.
const expansion = 4

// progress estimates how much of an input is read from the documents that were yielded, and not from read-ahead. It
// depends only on the content and the sizes of the files.
type progress struct {
	files      int64 // size of the files that are read to their end
	content    int64 // content of the current file up to the current document, after decompression
	compressed bool  // the current file
	exact      bool  // content is set by the reader of the format, and not the size of the texts
}

// countTexts returns a yield that adds the size of each text, for formats without an exact position.
func (p *progress) countTexts(yield record.Yield) record.Yield {
	return func(d record.Document, err error) bool {
		if !p.exact {
			p.content += int64(len(d.Data))
		}
		return yield(d, err)
	}
}

// setContent sets the content of the current file up to the current document.
func (p *progress) setContent(n int64) { p.content, p.exact = n, true }

// endFile advances to the next file.
func (p *progress) endFile(size int64) { *p = progress{files: p.files + size} }

// Fraction returns which part of the input precedes the end of the current document, from 0 to 1. It is an estimate:
// the size of compressed content is not known. It depends only on the files, so two readings return the same. It may
// be called within the loop over Documents.
func (in *Input) Fraction() float64 {
	size := float64(max(in.Bytes, 1))
	if !in.progress.compressed {
		return min(float64(in.progress.files+in.progress.content)/size, 1)
	}
	x := float64(in.progress.files+in.progress.content/expansion) / size
	const exact = 0.9
	if x <= exact {
		return x
	}
	return 1 - 0.01/(x-exact+0.1) // approaches 1 slowly, in case the content is larger than assumed
}
