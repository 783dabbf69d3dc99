"""The rasteriser against closed forms: areas, silhouettes, depth order; and PNG files read back bit for bit."""

import struct
import zlib

import numpy as np
import pytest

from sim.geometry import GeometryError, cloth_grid
from sim.geometry.raster import Ball, Camera, frame_camera, render, write_png

SIZE = (120, 100)
FRONT = Camera(eye=(0, 0, 4), target=(0, 0, 0), fov=40)
FOCAL = 50 / np.tan(np.radians(20))  # pixels
RED, GREEN = (0.9, 0.1, 0.1), (0.1, 0.9, 0.1)


def square(side, z=0.0):
    half = side / 2
    x = np.array([[-half, -half, z], [half, -half, z], [half, half, z], [-half, half, z]])
    return x, np.array([[0, 1, 2], [0, 2, 3]])


def is_color(image, color):
    """Pixels whose strongest channel is that of the colour, by far."""
    strongest = int(np.argmax(color))
    others = np.delete(image.astype(int), strongest, axis=2).max(axis=2)
    return image[..., strongest] > others + 60


def read_png(data):
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0] == zlib.crc32(kind + body)
        chunks[kind] = body
        at += 12 + length
    width, height, depth, mode = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    assert (depth, mode) == (8, 2) and b"IEND" in chunks
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, 1 + 3 * width)
    assert (rows[:, 0] == 2).all()  # filter "up": differences to the row above
    return np.cumsum(rows[:, 1:], axis=0, dtype=np.uint8).reshape(height, width, 3)


def test_png_round_trip(tmp_path):
    image = np.random.default_rng(3).integers(0, 256, (7, 5, 3), dtype=np.uint8)
    write_png(tmp_path / "a.png", image)
    assert np.array_equal(read_png((tmp_path / "a.png").read_bytes()), image)
    with pytest.raises(GeometryError, match="uint8"):
        write_png(tmp_path / "b.png", image / 255.0)


def test_a_square_covers_its_projection():
    x, tri = square(1.0)
    image = render(x, tri, SIZE, FRONT, color=RED, back=RED)
    assert image.shape == (100, 120, 3) and image.dtype == np.uint8
    side = FOCAL / 4
    mask = is_color(image, RED)
    assert abs(np.sqrt(mask.sum()) - side) < 1.0
    rows, columns = np.nonzero(mask)
    assert rows.mean() == pytest.approx(49.5, abs=0.5) and columns.mean() == pytest.approx(59.5, abs=0.5)


def test_right_and_up_are_right_and_up():
    x, tri = square(0.3)
    image = render(x + [0.6, 0.4, 0], tri, SIZE, FRONT, color=RED, back=RED)
    rows, columns = np.nonzero(is_color(image, RED))
    assert columns.mean() == pytest.approx(59.5 + FOCAL * 0.6 / 4, abs=0.7)
    assert rows.mean() == pytest.approx(49.5 - FOCAL * 0.4 / 4, abs=0.7)


def test_the_silhouette_of_a_sphere():
    """A ball of radius r seen from distance d covers a disc of focal r / sqrt(d^2 - r^2)."""
    image = render(np.zeros((0, 3)), np.zeros((0, 3), int), SIZE, FRONT, spheres=[Ball((0, 0, 0), 0.9, GREEN)])
    radius = FOCAL * 0.9 / np.sqrt(16 - 0.81)
    assert np.sqrt(is_color(image, GREEN).sum() / np.pi) == pytest.approx(radius, abs=0.8)


def test_nearer_things_hide_farther_ones_in_any_order():
    near, tri = square(0.5, z=0.5)
    far, _ = square(1.5, z=-0.5)
    for order in (0, 1):
        pieces = [near, far] if order == 0 else [far, near]
        x = np.concatenate(pieces)
        faces = np.concatenate([tri, tri + 4])
        alone = render(near, tri, SIZE, FRONT, color=RED, back=RED)
        both = render(x, faces, SIZE, FRONT, color=RED, back=RED)
        assert np.array_equal(both[45:55, 55:65], alone[45:55, 55:65])
    ball = [Ball((0, 0, 0), 0.2, GREEN)]
    assert is_color(render(far, tri, SIZE, FRONT, color=RED, back=RED, spheres=ball), GREEN).sum() > 20
    assert is_color(render(near, tri, SIZE, FRONT, color=RED, back=RED, spheres=ball), GREEN).sum() == 0


def test_depth_within_a_steep_triangle_is_perspective():
    """A large steep sheet x = z through a ball's centre hides the half of the ball that lies behind it."""
    x = np.array([[-3.0, -9, -3], [3, -9, 3], [3, 9, 3], [-3, 9, -3]])
    image = render(x, [[0, 1, 2], [0, 2, 3]], SIZE, FRONT, color=RED, back=RED, spheres=[Ball((0, 0, 0), 0.5, GREEN)])
    rows, columns = np.nonzero(is_color(image, GREEN))
    expected, whole = [], 0
    for column in range(120):  # along the middle row: the ray meets the ball before it meets the plane
        direction = np.array([(column - 59.5) / FOCAL, 0, -1.0])
        a, b = direction @ direction, 4.0 * direction[2]
        root = b * b - a * (16 - 0.25)
        whole += root > 0
        if root > 0 and (-b - np.sqrt(root)) / a < -4.0 / (direction[2] - direction[0]):
            expected.append(column)
    middle = columns[(rows == 49) | (rows == 50)]
    assert abs(middle.min() - min(expected)) <= 1 and abs(middle.max() - max(expected)) <= 1
    assert 0 < len(expected) < whole - 3  # the sheet does hide a part of the ball


def test_both_sides_have_their_colour():
    x, tri = square(1.0)
    assert is_color(render(x, tri, SIZE, FRONT, color=RED, back=GREEN), RED).sum() > 500
    assert is_color(render(x, tri[:, ::-1], SIZE, FRONT, color=RED, back=GREEN), GREEN).sum() > 500


def test_markers_show_unless_something_is_in_front():
    x, tri = square(1.0)
    blue = (0.1, 0.1, 0.9)
    shown = render(x, tri, SIZE, FRONT, color=RED, back=RED, markers=[[0.1, 0.1, 0]], marker_color=GREEN)
    assert is_color(shown, GREEN).sum() == pytest.approx(np.pi * 9, rel=0.3)
    hidden = render(
        x, tri, SIZE, FRONT, color=blue, back=blue, markers=[[0, 0, -1], [0, 0, 9], [50, 0, 0]], marker_color=GREEN
    )
    assert is_color(hidden, GREEN).sum() == 0


def test_what_is_behind_the_eye_is_not_drawn():
    x, tri = square(1.0, z=6.0)
    empty = render(np.zeros((0, 3)), np.zeros((0, 3), int), SIZE, FRONT)
    assert np.array_equal(render(x, tri, SIZE, FRONT), empty)


def test_a_shadow_lies_below_a_ball_and_only_there():
    camera = Camera(eye=(0, 6, 0.01), target=(0, 0, 0), up=(0, 1, 0))
    nothing = (np.zeros((0, 3)), np.zeros((0, 3), int))
    plain = render(*nothing, SIZE, camera, ground=0.0).astype(int)
    with_ball = render(*nothing, SIZE, camera, ground=0.0, spheres=[Ball((0, 0.6, 0), 0.3, GREEN)]).astype(int)
    darker = (plain - with_ball)[..., 0]
    assert (darker[~is_color(with_ball, GREEN)] > 20).sum() > 50
    assert np.abs(darker[:8, :8]).max() <= 25 and (darker < -30).sum() == 0


def test_frame_camera_keeps_every_point_in_the_picture():
    grid = cloth_grid(3, 3, 0.5, 0.2)
    camera = frame_camera(grid.positions, direction=(1, 2, 3))
    image = render(grid.positions, grid.triangles, SIZE, camera, color=RED, back=RED)
    mask = is_color(image, RED)
    assert mask.any() and not (mask[0].any() or mask[-1].any() or mask[:, 0].any() or mask[:, -1].any())
    with pytest.raises(GeometryError, match="up direction"):
        render(*square(1.0), SIZE, Camera(eye=(0, 1, 0), target=(0, 0, 0)))
