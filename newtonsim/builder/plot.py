"""A drawing that shows which joint connects which bodies."""

from newtonsim.builder.lists import BuilderLists
from newtonsim.scene.enums import GeoType, JointType


class PlotMethods(BuilderLists):
    """The part of ModelBuilder that draws."""

    def plot_articulation(
        self,
        show_body_keys: bool = True,
        show_joint_keys: bool = True,
        show_joint_types: bool = True,
        plot_shapes: bool = True,
        show_shape_types: bool = True,
        show_legend: bool = True,
    ):
        """Draw the graph of bodies (orange squares), joints (arrows) and shapes (blue circles).

        Needs the `plot` extra (matplotlib and networkx).

        Args:
            show_body_keys: Label bodies by key instead of index.
            show_joint_keys: Label joints by key instead of index.
            show_joint_types: Name the type of each joint.
            plot_shapes: Draw the shapes.
            show_shape_types: Name the type of each shape.
            show_legend: Draw a legend.

        Returns:
            The `matplotlib.figure.Figure`; show or save it.
        """
        import networkx as nx
        from matplotlib.figure import Figure

        graph = nx.DiGraph()
        labels: dict[object, str] = {"world": "world"}
        graph.add_node("world")
        for body, key in enumerate(self.body_key):
            graph.add_node(("body", body))
            labels["body", body] = key if show_body_keys else str(body)
        edge_labels = {}
        for joint in range(self.joint_count):
            edge = (_body_node(self.joint_parent[joint]), _body_node(self.joint_child[joint]))
            graph.add_edge(*edge)
            words = [self.joint_key[joint] if show_joint_keys else str(joint)]
            if show_joint_types:
                words.append(JointType(self.joint_type[joint]).name)
            edge_labels[edge] = "\n".join(words)
        joint_edges = list(graph.edges)
        shape_nodes = []
        for shape in range(self.shape_count if plot_shapes else 0):
            node = ("shape", shape)
            shape_nodes.append(node)
            graph.add_edge(_body_node(self.shape_body[shape]), node)
            labels[node] = GeoType(self.shape_geo_type[shape]).name if show_shape_types else str(shape)
        figure = Figure(figsize=(10.0, 8.0))
        axes = figure.add_subplot()
        positions = nx.spring_layout(graph, seed=0)
        bodies = [node for node in graph.nodes if node not in set(shape_nodes)]
        styles = {"ax": axes, "pos": positions}
        nx.draw_networkx_nodes(
            graph, nodelist=bodies, node_color="tab:orange", node_shape="s", label="body", **styles
        )
        nx.draw_networkx_edges(graph, edgelist=joint_edges, **styles)
        if shape_nodes:
            shape_edges = [edge for edge in graph.edges if edge[1] in set(shape_nodes)]
            nx.draw_networkx_nodes(
                graph, nodelist=shape_nodes, node_color="tab:blue", label="shape", **styles
            )
            nx.draw_networkx_edges(graph, edgelist=shape_edges, style="dashed", arrows=False, **styles)
        nx.draw_networkx_labels(graph, labels=labels, font_size=8, **styles)
        nx.draw_networkx_edge_labels(graph, edge_labels=edge_labels, font_size=7, **styles)
        if show_legend:
            axes.legend()
        axes.set_axis_off()
        return figure


def _body_node(body: int):
    return "world" if body < 0 else ("body", body)
