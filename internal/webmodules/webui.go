// Package webmodules contains the modules and style sheets that the live page and the report of compare share.
package webmodules

import "embed"

// Files are the modules and style sheets, by their names.
//
//go:embed *.js *.css
var Files embed.FS
