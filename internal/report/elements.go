package report

import "golang.org/x/net/html"

// element makes an element with attributes, pairs of a name and a value, and children. Whatever is written of it is escaped.
func element(name string, attributes []string, children ...*html.Node) *html.Node {
	n := &html.Node{Type: html.ElementNode, Data: name}
	for i := 0; i < len(attributes); i += 2 {
		n.Attr = append(n.Attr, html.Attribute{Key: attributes[i], Val: attributes[i+1]})
	}
	for _, c := range children {
		n.AppendChild(c)
	}
	return n
}

func tag(name string, children ...*html.Node) *html.Node { return element(name, nil, children...) }

func classed(name, class string, children ...*html.Node) *html.Node {
	return element(name, []string{"class", class}, children...)
}

func text(s string) *html.Node { return &html.Node{Type: html.TextNode, Data: s} }

// lines puts each of the nodes on a line of its own.
func lines(nodes ...*html.Node) (all []*html.Node) {
	for _, n := range nodes {
		all = append(all, text("\n"), n)
	}
	return append(all, text("\n"))
}
