package record

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// MaxListed is how many names an error message lists.
const MaxListed = 20

// ListNames returns sorted and quoted names for an error message, at most MaxListed of them. It sorts names.
func ListNames(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	slices.Sort(names)
	more := ""
	if len(names) > MaxListed {
		more = fmt.Sprintf(" and %d more", len(names)-MaxListed)
		names = names[:MaxListed]
	}
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = strconv.Quote(n)
	}
	return strings.Join(quoted, ", ") + more
}

// Truncate shortens text for an error message. A column name may be a whole line if the file is not a table.
func Truncate(name string) string {
	const most = 40
	if len(name) <= most {
		return name
	}
	return strings.ToValidUTF8(name[:most], "") + "..."
}
