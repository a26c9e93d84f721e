package export

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// ManifestName is the file of a folder that says what is in it.
const ManifestName = "manifest.json"

const manifestVersion = 1

// Manifest says what a folder of steps holds. docs/import.md describes it; other programs read it: fields may be added,
// and none may change its name or meaning.
type Manifest struct {
	Version     int             `json:"version"`
	Format      Format          `json:"format"`
	Run         string          `json:"run"`
	RunID       string          `json:"run_id"`
	Fingerprint string          `json:"fingerprint"`
	Config      json.RawMessage `json:"config"`            // of the plan
	Sources     []string        `json:"sources,omitempty"` // by their numbers
	First       uint64          `json:"first"`             // step
	// steps before this one; while it is not complete, those that are asked for
	End       uint64   `json:"end"`
	Columns   []string `json:"columns"`    // as a ticket names them
	Schema    []Column `json:"schema"`     // of the files
	FileSteps uint64   `json:"file_steps"` // of each part, but perhaps the last
	Parts     []Part   `json:"parts"`
	Complete  bool     `json:"complete"`
}

// Column is one of the files' columns.
type Column struct {
	Name string `json:"name"`
	Type string `json:"type"` // Arrow's name
}

// Part is the steps [First, First + Steps) in files of their own.
type Part struct {
	First uint64 `json:"first"`
	Steps uint64 `json:"steps"`
	Rows  int64  `json:"rows"`
	Files []File `json:"files"`
}

// File is one of the folder's, by its name below it, with slashes.
type File struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// next is the step with which the next part begins.
func (m *Manifest) next() uint64 {
	if n := len(m.Parts); n > 0 {
		return m.Parts[n-1].First + m.Parts[n-1].Steps
	}
	return m.First
}

// readManifest returns what a folder has of an export, nil for an empty folder or none.
func readManifest(dir string) (*Manifest, error) {
	data, err := os.ReadFile(filepath.Join(dir, ManifestName))
	if errors.Is(err, fs.ErrNotExist) {
		others, err := os.ReadDir(dir)
		if err == nil && slices.ContainsFunc(others, func(e fs.DirEntry) bool { return !isUnfinished(e.Name()) }) {
			return nil, fmt.Errorf("%s is not empty, and holds no export: name another folder", dir)
		}
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the manifest: %w", err)
	}
	m := &Manifest{}
	if err := json.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(dir, ManifestName), err)
	}
	if m.Version != manifestVersion {
		return nil, fmt.Errorf("%s has version %d, this binary knows %d", filepath.Join(dir, ManifestName), m.Version,
			manifestVersion)
	}
	return m, nil
}

// write puts the manifest into its folder, whole or not at all.
func (m *Manifest) write(dir string) error {
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return writeWhole(filepath.Join(dir, ManifestName), data)
}

// writeWhole writes a file under another name first.
func writeWhole(name string, data []byte) error {
	if err := os.WriteFile(name+unfinished, data, 0o644); err != nil {
		return err
	}
	return os.Rename(name+unfinished, name)
}

// follows refuses a folder with an export of something else than is asked for now.
func (m *Manifest) follows(asked *Manifest) error {
	for _, c := range []struct{ what, has, wants string }{
		{"run", m.Run, asked.Run}, {"run with the id", m.RunID, asked.RunID}, {"plan", m.Fingerprint, asked.Fingerprint},
		{"format", string(m.Format), string(asked.Format)}, {"columns", fmt.Sprint(m.Columns), fmt.Sprint(asked.Columns)},
		{"first step", fmt.Sprint(m.First), fmt.Sprint(asked.First)}, {"steps in a file", fmt.Sprint(m.FileSteps),
			fmt.Sprint(asked.FileSteps)},
	} {
		if c.has != c.wants {
			return fmt.Errorf("the folder has an export of another %s: %s, not %s: name another folder", c.what, c.has, c.wants)
		}
	}
	return nil
}

// check compares the files with what the manifest says of them.
func (m *Manifest) check(dir string) error {
	for _, p := range m.Parts {
		for _, f := range p.Files {
			has, err := fileOf(dir, f.Name)
			if err != nil {
				return fmt.Errorf("check the export: %w", err)
			}
			if has != f {
				return fmt.Errorf("%s has changed since it was exported: name another folder",
					filepath.Join(dir, filepath.FromSlash(f.Name)))
			}
		}
	}
	return nil
}

// fileOf looks at a file of the folder.
func fileOf(dir, name string) (File, error) {
	r, err := os.Open(filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil {
		return File{}, err
	}
	defer r.Close() // nothing was written
	sum := sha256.New()
	n, err := io.Copy(sum, r)
	return File{Name: name, Bytes: n, SHA256: hex.EncodeToString(sum.Sum(nil))}, err
}
