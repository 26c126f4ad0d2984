"""The functions of PyBullet on one client, a file for each group of them."""
