// Package export writes steps of a run to files, as readers receive them: every row with all of its columns.
// Completed files are kept, so that a repeated export resumes after the last complete part.
package export

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"loaderd/internal/api"
	"loaderd/internal/flightclient"
	"loaderd/loader"
	"loaderd/loader/runconfig"
)

// Format is a file format.
type Format string

// Supported formats.
const (
	Parquet Format = "parquet"
	Arrow   Format = "arrow"
	MDS     Format = "mds"
	NPY     Format = "npy"
)

// Formats are all supported formats.
var Formats = []Format{Parquet, Arrow, MDS, NPY}

// Options are the options of an export.
type Options struct {
	Dir        string
	Format     Format
	Run        string // the run that the daemon must serve; empty: any
	First, End uint64 // steps [First, End); End 0: the present end of the plan
	FromOldest bool   // First is the oldest step that can be read
	FileSteps  uint64 // steps per part
	Columns    []string
	// OnPart is called with each completed part. It must not block.
	OnPart func(Part)
}

// unfinishedSuffix is the suffix of files that are being written.
const unfinishedSuffix = ".unfinished"

func isUnfinished(name string) bool { return strings.HasSuffix(name, unfinishedSuffix) }

// job is the job name of the export's reader, which no training job uses.
const job = "export"

// writer writes the batches of a part. Close completes its files, whose names are relative to the folder.
type writer interface {
	Write(arrow.Record) error
	Close() error
}

// Validate returns an error for options that are invalid for any run, with their names on the command line. It sends no
// requests.
func (o Options) Validate() error {
	switch {
	case !slices.Contains(Formats, o.Format):
		return fmt.Errorf("format %q: want one of %v", o.Format, Formats)
	case o.FileSteps == 0:
		return errors.New("file-steps 0: want 1 step or more")
	case o.Dir == "":
		return errors.New("out: want a folder")
	}
	return nil
}

// Run exports steps. It returns the content of the folder, also with an error.
func Run(ctx context.Context, c *flightclient.Client, o Options) (*Manifest, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	info, err := c.Info(ctx, o.Run)
	if err != nil {
		return nil, err
	}
	asked, err := o.newManifest(info)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder: %w", err)
	}
	m, err := readManifest(o.Dir)
	if err != nil {
		return nil, err
	}
	if m == nil {
		m = asked
		if err := m.write(o.Dir); err != nil { // a folder with files but no manifest belongs to another program
			return nil, err
		}
	} else {
		if o.FromOldest {
			asked.First = m.First
		}
		if err := m.checkSettings(asked); err != nil {
			return m, err
		}
		if err := m.verifyFiles(o.Dir); err != nil {
			return m, err
		}
		if m.Complete && m.End >= asked.End {
			return m, nil
		}
		m.extendTo(asked.End)
	}
	e := &exporter{Options: o, manifest: m, info: info}
	err = e.run(ctx, c)
	if left := e.removeUnfinished(); err == nil {
		err = left
	}
	return m, err
}

// extendTo extends a complete export to a later step. A last part with fewer steps than the others is written again.
func (m *Manifest) extendTo(end uint64) {
	m.End, m.Complete = max(m.End, end), false
	if n := len(m.Parts); n > 0 && m.Parts[n-1].Steps < m.FileSteps {
		m.Parts = m.Parts[:n-1]
	}
}

// newManifest returns the manifest of a new export.
func (o Options) newManifest(info loader.Info) (*Manifest, error) {
	if o.FromOldest {
		o.First = info.Oldest
	}
	if o.End == 0 {
		o.End = info.Planned
	}
	if o.End <= o.First {
		return nil, fmt.Errorf("no steps from %d to %d: run %s has steps %d to %d", o.First, o.End, info.Run, info.Oldest,
			info.Planned)
	}
	columns := o.Columns
	if len(columns) == 0 {
		columns = defaultColumns(info.Columns)
	}
	config, err := json.Marshal(info.Config)
	if err != nil {
		return nil, err
	}
	m := &Manifest{Version: manifestVersion, Format: o.Format, Run: info.Run, RunID: info.ID,
		Fingerprint: info.Fingerprint, Config: config, First: o.First,
		End: o.End, Columns: columns, FileSteps: o.FileSteps, Parts: []Part{}}
	for _, s := range info.Sources {
		m.Sources = append(m.Sources, s.Name)
	}
	return m, nil
}

// defaultColumns returns all columns of a run, with the narrowest available type of ids.
func defaultColumns(columns []string) (all []string) {
	const wide, narrow = "input_ids", "input_ids:uint16"
	for _, c := range columns {
		if c != wide || !slices.Contains(columns, narrow) {
			all = append(all, c)
		}
	}
	return all
}

// exporter is a running export.
type exporter struct {
	Options
	manifest *Manifest
	info     loader.Info

	out   writer // of the present part
	part  Part
	row   int32 // number of the step's rows that were received
	steps []stepCounts
}

// stepCounts are the counts of a step over all ranks, from the metadata of its batches.
type stepCounts struct {
	Step             uint64 `json:"step"`
	Bucket           int32  `json:"bucket"`
	Rows             int32  `json:"rows"`
	StepTokens       int64  `json:"step_tokens"`
	StepSegments     int64  `json:"step_segments"`
	StepLossTokens   int64  `json:"step_loss_tokens"`
	StepLossSegments int64  `json:"step_loss_segments"`
	StepSources      int    `json:"step_sources,omitempty"`
}

func (e *exporter) run(ctx context.Context, c *flightclient.Client) error {
	first := e.manifest.nextStep()
	if first >= e.manifest.End {
		return e.markComplete()
	}
	ticket := api.Ticket{Run: e.manifest.Run, Fingerprint: e.manifest.Fingerprint, World: 1, Job: job, Step: first,
		Steps:   e.manifest.End - first,
		Columns: e.manifest.Columns}
	if err := c.ReadRecords(ctx, ticket, e.writeBatch); err != nil {
		return err
	}
	if e.out != nil { // the run has ended within a part
		if err := e.finishPart(); err != nil {
			return err
		}
	}
	return e.markComplete()
}

// markComplete marks the export as complete.
func (e *exporter) markComplete() error {
	e.manifest.End, e.manifest.Complete = e.manifest.nextStep(), true
	if e.Format == MDS {
		if err := writeIndex(e.Dir, e.manifest); err != nil {
			return err
		}
	}
	return e.manifest.write(e.Dir)
}

// writeBatch writes a batch.
func (e *exporter) writeBatch(r arrow.Record, metadata []byte) error {
	meta := struct {
		*stepCounts
		Part  int `json:"part"`
		Parts int `json:"parts"`
	}{stepCounts: &stepCounts{}}
	if err := json.Unmarshal(metadata, &meta); err != nil {
		return fmt.Errorf("app_metadata: %w", err)
	}
	if meta.Part == 0 {
		e.row = 0
		e.steps = append(e.steps, *meta.stepCounts)
		e.steps[len(e.steps)-1].Rows = 0
	}
	rows, err := addPositionColumns(r, meta.Step, meta.Bucket, e.row)
	if err != nil {
		return err
	}
	defer rows.Release()
	if e.out == nil {
		if err := e.startPart(meta.Step, rows.Schema()); err != nil {
			return err
		}
	}
	if err := e.out.Write(rows); err != nil {
		return fmt.Errorf("write step %d: %w", meta.Step, err)
	}
	e.row += int32(r.NumRows())
	e.steps[len(e.steps)-1].Rows = e.row
	e.part.Rows += r.NumRows()
	if meta.Part+1 < meta.Parts {
		return nil
	}
	if e.part.Steps++; e.part.Steps == e.manifest.FileSteps {
		return e.finishPart()
	}
	return nil
}

// partName returns the name of a part's file or folder.
func (e *exporter) partName() string { return fmt.Sprintf("part-%08d", e.part.First) }

// startPart creates the files of a part.
func (e *exporter) startPart(step uint64, schema *arrow.Schema) (err error) {
	if len(e.manifest.Schema) == 0 {
		for _, f := range schema.Fields() {
			e.manifest.Schema = append(e.manifest.Schema, Column{f.Name, f.Type.String()})
		}
	}
	e.part, e.steps = Part{First: step}, e.steps[len(e.steps)-1:]
	path := filepath.Join(e.Dir, e.partName())
	switch e.Format {
	case Arrow:
		e.out, err = newArrow(path+".arrow"+unfinishedSuffix, schema)
	case Parquet:
		e.out, err = newParquet(path+".parquet"+unfinishedSuffix, schema)
	case MDS:
		e.out, err = newMDSFile(path+".mds"+unfinishedSuffix, schema)
	default:
		e.out, err = newNPYFolder(path+unfinishedSuffix, schema, hasOneRowLength(e.info.Config))
	}
	if err != nil {
		return fmt.Errorf("begin part %s: %w", path, err)
	}
	return nil
}

// hasOneRowLength reports whether the configuration has one row length for all steps. A control may add others. It does
// not count here, so that the files do not depend on the time of the export.
func hasOneRowLength(c runconfig.Config) bool {
	return len(c.Packing.Buckets) == 1 &&
		!slices.ContainsFunc(c.Steps.Schedule, func(p runconfig.Phase) bool { return len(p.Buckets) > 0 })
}

// finishPart closes the files of a part, renames them to their final names, and adds them to the manifest.
func (e *exporter) finishPart() error {
	out := e.out
	e.out = nil
	if err := out.Close(); err != nil {
		return fmt.Errorf("finish part %s: %w", e.partName(), err)
	}
	counts, err := json.Marshal(e.steps)
	if err != nil {
		return err
	}
	steps := e.partName() + ".steps.json"
	if err := writeAtomic(filepath.Join(e.Dir, steps), counts); err != nil {
		return err
	}
	name := e.partName() + map[Format]string{Arrow: ".arrow", Parquet: ".parquet", MDS: ".mds"}[e.Format]
	final := filepath.Join(e.Dir, name)
	if err := os.RemoveAll(final); err != nil { // left by an export that was killed before it wrote the manifest
		return err
	}
	if err := os.Rename(final+unfinishedSuffix, final); err != nil {
		return err
	}
	names := []string{name}
	if e.Format == NPY {
		files, err := os.ReadDir(final)
		if err != nil {
			return err
		}
		names = nil
		for _, f := range files {
			names = append(names, name+"/"+f.Name())
		}
	}
	for _, n := range append(names, steps) {
		f, err := hashFile(e.Dir, n)
		if err != nil {
			return err
		}
		e.part.Files = append(e.part.Files, f)
	}
	e.manifest.Parts = append(e.manifest.Parts, e.part)
	if err := e.manifest.write(e.Dir); err != nil {
		return err
	}
	if e.OnPart != nil {
		e.OnPart(e.part)
	}
	return nil
}

// removeUnfinished removes unfinished files.
func (e *exporter) removeUnfinished() error {
	if e.out != nil {
		_ = e.out.Close() // the file is removed
	}
	left, err := filepath.Glob(filepath.Join(e.Dir, "*"+unfinishedSuffix))
	for _, name := range left {
		err = errors.Join(err, os.RemoveAll(name))
	}
	return err
}
