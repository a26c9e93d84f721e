// The program's stand-in for this module, see json.go. go.mod at the top replaces the module by this folder.
module github.com/goccy/go-json

go 1.26.0
