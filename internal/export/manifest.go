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

// ManifestName is the name of the file that describes the folder's content.
const ManifestName = "manifest.json"

const manifestVersion = 1

// Manifest describes a folder of steps. docs/how-to/import-export.md documents it. Other programs read it: fields may
// be added, but no field may change its name or meaning.
type Manifest struct {
	Version     int             `json:"version"`
	Format      Format          `json:"format"`
	Run         string          `json:"run"`
	RunID       string          `json:"run_id"`
	Fingerprint string          `json:"fingerprint"`
	Config      json.RawMessage `json:"config"`            // of the plan
	Sources     []string        `json:"sources,omitempty"` // by number
	First       uint64          `json:"first"`             // step
	// the export contains steps before this one; while incomplete, the requested end
	End       uint64   `json:"end"`
	Columns   []string `json:"columns"`    // as in a ticket
	Schema    []Column `json:"schema"`     // of the files
	FileSteps uint64   `json:"file_steps"` // steps per part; the last part may have fewer
	Parts     []Part   `json:"parts"`
	Complete  bool     `json:"complete"`
}

// Column is one of the files' columns.
type Column struct {
	Name string `json:"name"`
	Type string `json:"type"` // Arrow's name
}

// Part contains the steps [First, First + Steps) in separate files.
type Part struct {
	First uint64 `json:"first"`
	Steps uint64 `json:"steps"`
	Rows  int64  `json:"rows"`
	Files []File `json:"files"`
}

// File is a file of the folder, named by its path relative to the folder, with slashes.
type File struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// nextStep returns the first step of the next part.
func (m *Manifest) nextStep() uint64 {
	if n := len(m.Parts); n > 0 {
		return m.Parts[n-1].First + m.Parts[n-1].Steps
	}
	return m.First
}

// readManifest returns the manifest of a folder, nil if the folder is empty or missing.
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

// write writes the manifest atomically.
func (m *Manifest) write(dir string) error {
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return writeAtomic(filepath.Join(dir, ManifestName), data)
}

// writeAtomic writes a file under a temporary name and renames it.
func writeAtomic(name string, data []byte) error {
	if err := os.WriteFile(name+unfinishedSuffix, data, 0o644); err != nil {
		return err
	}
	return os.Rename(name+unfinishedSuffix, name)
}

// checkSettings returns an error if the folder contains an export with other settings than the requested ones.
func (m *Manifest) checkSettings(asked *Manifest) error {
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

// verifyFiles compares the files with the manifest.
func (m *Manifest) verifyFiles(dir string) error {
	for _, p := range m.Parts {
		for _, f := range p.Files {
			has, err := hashFile(dir, f.Name)
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

// hashFile returns the size and hash of a file of the folder.
func hashFile(dir, name string) (File, error) {
	r, err := os.Open(filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil {
		return File{}, err
	}
	defer r.Close() // read-only
	sum := sha256.New()
	n, err := io.Copy(sum, r)
	return File{Name: name, Bytes: n, SHA256: hex.EncodeToString(sum.Sum(nil))}, err
}
