// Package archive reads documents from archives: samples of tar archives in the layout of WebDataset, and records of
// web archives (WARC, WET).
package archive

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"loaderd/internal/corpus/jsonvalue"
	"loaderd/internal/corpus/record"
	"loaderd/internal/tokenfiles"
)

// Extensions of the files of a sample that are read in addition to textExtensions: its fields, and its token ids.
const (
	jsonExtension = "json"
	npyExtension  = "npy"
)

// textExtensions are the extensions of a sample's text. The first one that a sample has is used.
var textExtensions = []string{"txt", "text", "transcript"}

// sample is a run of consecutive files with the same key.
type sample struct {
	key            string
	fields         map[string][]byte // content by extension; nil for files that are not read
	oversizedBytes int64             // size of a file that exceeds the limit, 0 for none
}

// TarDocuments yields a document per sample of a tar archive. Its content is the text file (txt), or else the text of
// the fields (json). The fields name the document in either case. Files with other extensions are not text.
// Concatenated archives are read one after the other. It returns whether the iteration continues.
func TarDocuments(f record.File, r io.Reader, cols record.Columns, yield record.Yield) bool {
	archives := &tarArchives{r: r}
	at := sample{}
	number := int64(0)
	give := func() bool {
		if at.fields == nil {
			return true
		}
		number++
		d, err := sampleDocument(cols, f, at)
		at.fields = nil
		if err != nil {
			return f.Skip(yield, number, err)
		}
		return f.Emit(yield, d)
	}
	for archive := 0; ; {
		h, err := archives.next()
		if err == io.EOF {
			return give()
		}
		if err != nil {
			return f.Fail(yield, fmt.Errorf("after sample %q: not a readable tar: %w", at.key, err))
		}
		key, ending := splitKey(h.Name)
		if h.Typeflag != tar.TypeReg || key == "" || strings.HasPrefix(path.Base(h.Name), ".") {
			continue
		}
		if key != at.key || at.fields == nil || archive != archives.number {
			if !give() {
				return false
			}
			at, archive = sample{key: key, fields: map[string][]byte{}}, archives.number
		}
		if err := readSampleFile(cols, &at, ending, h.Size, archives); err != nil {
			return f.Fail(yield, fmt.Errorf("%s: %w", h.Name, err))
		}
	}
}

// tarBlock is the block size of tar. An archive ends with two blocks of zeros, followed by padding with zeros.
const tarBlock = 512

// tarArchives reads the files of concatenated tar archives, as tar -i does.
type tarArchives struct {
	r        io.Reader
	archive  *tar.Reader
	zeroTail *zeroCounter // of the current archive
	number   int          // number of the current archive
}

// next returns the header of the next file, or io.EOF after the last archive. Read returns the file's content.
func (a *tarArchives) next() (*tar.Header, error) {
	if a.archive == nil {
		a.startArchive(nil)
	}
	h, err := a.archive.Next()
	switch {
	case err == io.EOF && !a.zeroTail.hasEndMarker(): // the library does not report a missing end marker
		return nil, io.ErrUnexpectedEOF
	case err != io.EOF:
		return h, err
	}
	first, err := a.skipPadding()
	if err != nil {
		return nil, err
	}
	a.startArchive(first)
	if h, err = a.archive.Next(); err != nil {
		return nil, fmt.Errorf("the data after its end marker is not a tar archive: %w", err)
	}
	return h, nil
}

func (a *tarArchives) Read(p []byte) (int, error) { return a.archive.Read(p) }

// startArchive starts an archive whose first bytes are already read.
func (a *tarArchives) startArchive(first []byte) {
	a.zeroTail = &zeroCounter{r: io.MultiReader(bytes.NewReader(first), a.r)}
	a.archive = tar.NewReader(a.zeroTail)
	a.number++
}

// skipPadding skips padding and returns the first block of the next archive, or io.EOF.
func (a *tarArchives) skipPadding() ([]byte, error) {
	block := make([]byte, tarBlock)
	for {
		n, err := io.ReadFull(a.r, block)
		if len(bytes.TrimRight(block[:n], "\x00")) > 0 {
			return block[:n], nil
		}
		if err == io.ErrUnexpectedEOF {
			err = io.EOF
		}
		if err != nil {
			return nil, err
		}
	}
}

// zeroCounter is a reader that counts the zero bytes at the end of what was read.
type zeroCounter struct {
	r io.Reader
	n int
}

func (z *zeroCounter) Read(p []byte) (int, error) {
	n, err := z.r.Read(p)
	if rest := len(bytes.TrimRight(p[:n], "\x00")); rest > 0 {
		z.n = n - rest
	} else {
		z.n += n
	}
	return n, err
}

// hasEndMarker reports whether the archive has its end marker: a block of zeros.
func (z *zeroCounter) hasEndMarker() bool { return z.n >= tarBlock }

// splitKey splits a name at the first dot of its last element, as WebDataset does.
func splitKey(name string) (key, ending string) {
	dir, base := path.Split(name)
	base, ending, ok := strings.Cut(base, ".")
	if !ok {
		return "", ""
	}
	return dir + base, strings.ToLower(ending)
}

// readSampleFile stores a file of a sample, if it is needed.
func readSampleFile(cols record.Columns, s *sample, ending string, size int64, r io.Reader) error {
	read := ending == jsonExtension || cols.Tokens && ending == npyExtension ||
		!cols.Tokens && slices.Contains(textExtensions, ending)
	switch {
	case !read:
		ending = "" // only records that the sample has further files
	case size > cols.MaxRecord() || ending != jsonExtension && ending != npyExtension && size > cols.MaxDocument:
		s.oversizedBytes = size
		return nil
	}
	if _, twice := s.fields[ending]; twice && read {
		return fmt.Errorf("sample %q contains it twice", s.key)
	}
	s.fields[ending] = nil
	if !read {
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(r, size))
	s.fields[ending] = data
	return err
}

// sampleDocument returns the document of a sample.
func sampleDocument(cols record.Columns, f record.File, at sample) (d record.Document, err error) {
	if at.oversizedBytes > 0 {
		return d, cols.TooLargeError(int(at.oversizedBytes))
	}
	raw, has := at.fields[jsonExtension]
	if has {
		if d, err = parseSampleFields(cols, raw); err != nil {
			return record.Document{}, fmt.Errorf("sample %q: %w", at.key, err)
		}
	}
	own := false
	for _, ending := range textExtensions {
		if data, ok := at.fields[ending]; ok {
			if !utf8.Valid(data) {
				return record.Document{}, record.Errorf("sample %q: its text is not valid UTF-8", at.key)
			}
			d.Data, d.Parts, own = data, false, true
			break
		}
	}
	if data, ok := at.fields[npyExtension]; ok {
		if d.Data, err = readNPYTokens(data, cols.MaxDocument); err != nil {
			return record.Document{}, record.Errorf("sample %q: %w", at.key, err)
		}
		own = true
	}
	if !own && d.Data == nil {
		return record.Document{}, record.WithReason(record.NoText, noSampleText(cols, at, raw))
	}
	if d.Label == "" {
		d.Label = record.CleanLabel(at.key)
	}
	if d.Path == "" {
		// path.Join would merge the two slashes of a URL.
		d.Path = record.CleanLabel(f.Path + "/" + path.Clean(at.key))
	}
	if cols.ID != "" && d.ID == "" {
		return record.Document{}, record.Errorf("sample %q has no field %q", at.key, cols.ID)
	}
	return d, nil
}

// parseSampleFields returns the document of a sample's fields, without content if they have none.
func parseSampleFields(cols record.Columns, raw []byte) (record.Document, error) {
	if fields, err := jsonvalue.ReadObject(raw); err == nil && !cols.HasDocument(fields) && utf8.Valid(raw) {
		cols.Text, cols.Tokens = "\x00", false
		d, err := cols.Document(append(fields, jsonvalue.Field{Name: cols.Text, Value: []byte(`""`)}))
		d.Data = nil
		return d, err
	}
	return cols.Parse(raw)
}

func noSampleText(cols record.Columns, at sample, raw []byte) error {
	what := "no " + strings.Join(textExtensions, ", ") + " file"
	if cols.Tokens {
		what = "no npy file"
	}
	if fields, err := jsonvalue.ReadObject(raw); err == nil && raw != nil {
		return fmt.Errorf("sample %q has %s, and its json %w", at.key, what, cols.MissingTextError(fields.Names()))
	}
	return fmt.Errorf("sample %q has %s", at.key, what)
}

// readNPYTokens returns the ids of a NumPy array that is one document.
func readNPYTokens(data []byte, limit int64) ([]byte, error) {
	never := uint32(1 << 31) // larger than any id
	d, err := tokenfiles.NewNPYStream(bytes.NewReader(data), tokenfiles.Boundaries{End: &never})
	if err != nil {
		return nil, err
	}
	var all []byte
	for {
		all, err = d.Next(all, limit)
		var bad *tokenfiles.DocumentError
		switch {
		case err == io.EOF:
			return all, nil
		case errors.As(err, &bad) && bad.TooLarge:
			return nil, record.WithReason(record.TooLarge, err)
		case err != nil:
			return nil, err
		}
	}
}
