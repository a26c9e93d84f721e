// Package columnar reads documents from rows of named columns: Arrow IPC files and streams, Parquet files, and
// MosaicML's shards (MDS). Memory is bounded by the unit that a file decodes at a time.
package columnar
