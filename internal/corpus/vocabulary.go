package corpus

import (
	"encoding/binary"
	"fmt"

	"loaderd/internal/corpus/record"
)

// limitVocabulary skips documents with ids beyond the vocabulary.
func (o Options) limitVocabulary(yield record.Yield) record.Yield {
	if o.Vocabulary == 0 {
		return yield
	}
	return func(d record.Document, err error) bool {
		for i := 0; err == nil && i+4 <= len(d.Data); i += 4 {
			if id := binary.LittleEndian.Uint32(d.Data[i:]); int64(id) >= int64(o.Vocabulary) {
				problem := fmt.Errorf("document %s: token %d has the id %d, the tokenizer's vocabulary has %d",
					d.Label, i/4, id, o.Vocabulary)
				err = &record.SkipError{Reason: record.Invalid, Path: d.Path, Origin: d.Origin, Err: problem}
				d = record.Document{}
			}
		}
		return yield(d, err)
	}
}
